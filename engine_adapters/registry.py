"""The engines that Headworks knows: one line each."""

from __future__ import annotations

from controlplane.domain.errors import RefusedError
from engine_adapters.base import EngineAdapter
from engine_adapters.external.adapter import ExternalAdapter
from engine_adapters.simulated.adapter import SimulatedAdapter
from engine_adapters.vllm.adapter import VllmAdapter

_ADAPTERS: tuple[EngineAdapter, ...] = (
    VllmAdapter(),
    SimulatedAdapter(),
    ExternalAdapter(),
)  # fmt: skip
_BY_NAME = {adapter.name: adapter for adapter in _ADAPTERS}


def get(name: str) -> EngineAdapter:
    """Returns the adapter of an engine; raises RefusedError for a name that is none."""
    adapter = _BY_NAME.get(name)
    if adapter is None:
        raise RefusedError(
            "unknown_engine",
            f"There is no engine {name!r}.",
            kind="not_found",
            hint=f"The engines are {', '.join(names())}.",
            fields={"engine": f"Choose one of: {', '.join(names())}."},
        )
    return adapter


def names() -> tuple[str, ...]:
    """Returns the names of all engines, in the order in which they are shown."""
    return tuple(_BY_NAME)
