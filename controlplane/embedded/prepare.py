"""Everything that is made before anything is started: environments, the console's packages, the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from controlplane.embedded import compiling, environments, model, preflight, say, vendor
from controlplane.embedded.layout import Layout


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the processes need to know of it."""

    engine_python: Path
    model: Path


def prepare(layout: Layout) -> Prepared:
    """Makes what is missing or older than its inputs; says each step; raises LauncherError with one sentence."""
    build = preflight.engine_build()
    preflight.check_disk(layout.home, preflight.LATER_RUN_BYTES)
    if not layout.engine_link.exists():
        preflight.check_disk(layout.cache, preflight.FIRST_RUN_BYTES)
    say.step(
        f"Preparing in {layout.root} ({'NVIDIA driver found' if build == 'gpu' else 'no NVIDIA driver: CPU build'})"
    )
    environments.ensure_control(layout)
    vendor.ensure(layout)
    building = compiling.Building(layout)
    engine_python = environments.ensure_engine(layout)
    prepared = Prepared(engine_python, model.ensure(layout, engine_python))
    building.finish()
    return prepared
