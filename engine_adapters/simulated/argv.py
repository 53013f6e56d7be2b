"""How a simulated replica is started: a process of the control plane's own interpreter, a port each."""

from __future__ import annotations

import sys

from controlplane.domain.desired import EngineSpec
from engine_adapters.base import REPLICA_KEY_ENV, Command, LaunchPlace
from engine_adapters.checks import given
from engine_adapters.simulated.settings import FIELDS, number

MODULE = "engine_adapters.simulated.server"


def command(spec: EngineSpec, place: LaunchPlace) -> Command:
    """Returns how to start one simulated replica. It needs no engine environment: it runs where Headworks runs."""
    # the card's figures are known to the node, not to the revision, so they become arguments here
    settings = dict(spec.settings)
    own = place.accelerators[0] if place.accelerators else None
    if own and own.memory_bytes and given(settings, "memory_gb") is None:
        settings["memory_gb"] = own.memory_bytes / 1e9
    if own and own.bandwidth_bytes_per_s and given(settings, "bandwidth_gb_per_s") is None:
        settings["bandwidth_gb_per_s"] = own.bandwidth_bytes_per_s / 1e9
    argv = [sys.executable, "-m", MODULE, "--host", place.host, "--port", str(place.port)]
    argv += ["--served-model-name", spec.served_model_name]
    cards = spec.tensor_parallel * spec.pipeline_parallel
    if cards > 1:
        argv += ["--cards", str(cards)]
    for field in FIELDS:
        value = given(settings, field.name)
        if value is True:
            argv.append(option(field.name))
        elif value is not None and value is not False:
            argv += [option(field.name), format(number(settings, field.name), ".10g")]
    env = {REPLICA_KEY_ENV: place.key, "PYTHONPATH": place.code_root, "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}
    return Command(argv=tuple(argv), env=env)


def option(name: str) -> str:
    """Returns the command-line option of a setting."""
    return "--" + name.replace("_", "-")
