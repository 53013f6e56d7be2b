"""Which fields of a request steer the engine itself, and so are never a client's.

A client that could set them would pass others in the engine's queue, read or write their KV cache, run a template of
its own, or make a prefix hit that tells what another tenant has asked. `cache_salt` and `priority` are set by the
gateway.
"""

from __future__ import annotations

from collections.abc import Iterable

# of vLLM's chat, completion and embedding requests: what is not OpenAI's and reaches beyond the answer, by the first
# version in which it was seen
_VLLM: tuple[tuple[tuple[int, int], frozenset[str]], ...] = (
    (
        (0, 0),
        frozenset(
            {
                "priority",
                "cache_salt",
                "request_id",
                "kv_transfer_params",
                "ec_transfer_params",
                "vllm_xargs",
                "chat_template",
                "mm_processor_kwargs",
                "media_io_kwargs",
                "logits_processors",
                "prompt_embeds",
            }
        ),
    ),
    # a session that another tenant could name as well; marks that the operator wants; events of many tokens, by which
    # nobody could count what a client got that leaves before the end
    ((0, 32), frozenset({"session_id", "watermarking", "stream_interval"})),
)
_SALTED = frozenset({"/chat/completions", "/completions"})
_NONE: frozenset[str] = frozenset()
PRIORITIES = {"interactive": b"0", "standard": b"1", "batch": b"2"}  # vLLM serves the lowest number first


def fields(engine: str, versions: Iterable[str] = ()) -> frozenset[str]:
    """Returns the names of the fields that are taken out of a request for an engine of this kind: all that any of
    these versions knows. A version that can't be read stands for the newest."""
    if engine != "vllm":
        return _NONE
    known = [_number(one) for one in versions]
    newest = None if not known or None in known else max(one for one in known if one is not None)
    return _NONE.union(*(names for since, names in _VLLM if newest is None or since <= newest))


def salted_paths(engine: str) -> frozenset[str]:
    """Returns where requests get the tenant's salt, so that prefixes are shared inside a tenant only."""
    return _SALTED if engine == "vllm" else _NONE


def priority(tier: str) -> bytes:
    """Returns the priority of a tier's requests inside an engine that goes by priority, as JSON."""
    return PRIORITIES.get(tier, PRIORITIES["standard"])


def _number(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])
