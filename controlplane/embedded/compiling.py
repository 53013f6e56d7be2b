"""Builds the compiled form of the gateway's path (`controlplane.compiled`), beside what else is prepared.

Guarantees
    A build that is there under its name is whole: it is made elsewhere and renamed. What can't be built is no failure:
    the gateway runs uncompiled then, and a sentence says why.
"""

from __future__ import annotations

import shutil
import sysconfig
import tempfile
import threading
import time
from pathlib import Path

from controlplane import compiled
from controlplane.embedded import say
from controlplane.embedded.environments import MARKER, alone, inputs_hash, is_whole, make_venv, pip_install
from controlplane.embedded.layout import Layout
from controlplane.embedded.problems import LauncherError
from controlplane.embedded.quiet_run import run_saying

KEEP_S = 14 * 86_400  # builds of other checkouts, or of older sources, that nobody has touched for so long


class Building:
    """A build that goes on beside the launcher; `finish` waits for it and says what has become of it."""

    def __init__(self, layout: Layout) -> None:
        self._said = ""
        self._thread = threading.Thread(target=self._run, args=(layout,), name="compile", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Returns when it is over."""
        self._thread.join()
        say.step(f"Gateway: {self._said or 'runs uncompiled, for about twice the CPU: building it failed.'}")

    def _run(self, layout: Layout) -> None:
        self._said = ensure(layout)


def ensure(layout: Layout) -> str:
    """Makes the build of the sources as they are, unless it is there; returns what is to be said of it."""
    base = layout.cache / "compiled"
    build = base / compiled.build_name(layout.root)
    base.mkdir(parents=True, exist_ok=True)
    with alone(base, "compiling the gateway"):
        if build.is_dir():
            build.touch()
            return "compiled already"
        if lacks := _lacks():
            return f"runs uncompiled, for about twice the CPU: {lacks}"
        began = time.monotonic()
        try:
            _build(layout, base, build)
        except LauncherError as error:
            return f"runs uncompiled, for about twice the CPU: {error}"
        _forget_old(base, build)
        return f"compiled in {time.monotonic() - began:.0f} s"


def _lacks() -> str:
    """Returns what this machine has to get before anything can be compiled on it."""
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        return "there is no C compiler. apt-get install -y gcc python3-dev, then make prepare."
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "the headers of Python are missing. apt-get install -y python3-dev, then make prepare."
    return ""


def _build(layout: Layout, base: Path, build: Path) -> None:
    log = layout.logs / "compile-gateway.log"
    python = _ensure_compiler(layout, base, log)
    script = layout.root / "controlplane" / "embedded" / "compile_gateway.py"
    with tempfile.TemporaryDirectory(dir=base, prefix=".building-") as scratch:
        command = ["nice", "-n", "5", str(python), str(script), scratch, str(layout.control_python)]
        run_saying(command, "compiling the gateway", log, cwd=layout.root)
        (Path(scratch) / "out").rename(build)


def _ensure_compiler(layout: Layout, base: Path, log: Path) -> Path:
    """Returns the interpreter of an environment that has mypyc."""
    requirements = layout.root / "requirements" / "compile.txt"
    wanted = inputs_hash(requirements)
    folder = base / f"compiler-{wanted}"
    python = folder / "bin" / "python"
    if not is_whole(folder, wanted):
        make_venv(folder, log)
        pip_install(python, ["-r", str(requirements)], "installing the compiler", log)
        (folder / MARKER).write_text(wanted + "\n", encoding="utf-8")
    folder.touch()
    return python


def _forget_old(base: Path, newest: Path) -> None:
    for one in base.iterdir():
        if one != newest and one.is_dir() and time.time() - one.stat().st_mtime > KEEP_S:
            shutil.rmtree(one, ignore_errors=True)
