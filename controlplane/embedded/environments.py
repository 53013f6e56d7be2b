"""The two Python environments: the control plane's in the checkout, the engine's in the per-user cache.

An environment counts as whole only when its marker names the inputs it was made from; anything else is made anew, so an
installation that was killed half-way is never mistaken for a finished one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.embedded import preflight, say
from controlplane.embedded.layout import Layout, base_python
from controlplane.embedded.problems import LauncherError, explain_install_failure
from controlplane.embedded.quiet_run import run_saying

MARKER = ".headworks-complete"
UNWANTED = ("torchvision", "torchaudio", "torchcodec")  # those of the CPU build break transformers


def inputs_hash(*files: Path, also: str = "") -> str:
    """Returns a hash of files, the Python version and the machine: what an environment depends on."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    digest.update(f"{sys.version_info[:2]} {os.uname().machine} {also}".encode())
    return digest.hexdigest()[:16]


def is_whole(folder: Path, wanted: str) -> bool:
    """Returns whether the environment was finished from the wanted inputs and its interpreter still runs."""
    try:
        finished = (folder / MARKER).read_text(encoding="utf-8").strip()
    except OSError:
        return False
    if finished != wanted:
        return False
    try:  # the Python it was made from may be gone since
        done = subprocess.run([str(folder / "bin" / "python"), "-c", ""], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@contextmanager
def alone(path: Path, what: str) -> Iterator[None]:
    """Holds a lock on `path` (a folder or file), so that two launchers do not make the same thing."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say.step(f"Waiting: another launcher is {what}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def make_venv(folder: Path, log: Path) -> None:
    """Makes an empty environment in place of whatever is there."""
    run_saying([base_python(), "-m", "venv", "--clear", str(folder)], "making a Python environment", log)


def pip_install(python: Path, arguments: list[str], what: str, log: Path) -> None:
    """Runs pip install; raises LauncherError with one sentence when it fails."""
    command = [
        str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off",
        *arguments,
    ]  # fmt: skip
    run_saying(command, what, log, explain=lambda output: explain_install_failure(output, what))


def ensure_control(layout: Layout) -> None:
    """Makes or completes `.venv` from requirements/control.txt."""
    requirements = layout.root / "requirements" / "control.txt"
    wanted = inputs_hash(requirements)
    with alone(layout.root, "installing the control plane's environment"):
        if is_whole(layout.control_env, wanted):
            say.step("Control plane's environment: up to date")
            return
        preflight.check_disk(layout.control_env, preflight.GB)
        say.step("Control plane's environment: installing (about 20 s)")
        log = layout.logs / "install-control.log"
        if not _has_pip(layout.control_python):
            make_venv(layout.control_env, log)
        pip_install(layout.control_python, ["-r", str(requirements)], "installing the control plane's packages", log)
        (layout.control_env / MARKER).write_text(wanted + "\n", encoding="utf-8")


def _has_pip(python: Path) -> bool:
    """Whether an environment can be completed in place; one for checks may already be there, with more in it."""
    try:
        done = subprocess.run([str(python), "-m", "pip", "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    inside = done.returncode == 0 and str(python.parent.parent) in done.stdout.decode(errors="replace")
    return inside and f"python {sys.version_info[0]}.{sys.version_info[1]}" in done.stdout.decode(errors="replace")


def ensure_engine(layout: Layout) -> Path:
    """Makes the engine's environment in the cache, links it to `.venv-engine`, and returns its interpreter."""
    build = preflight.engine_build()
    requirements = layout.root / "requirements" / f"engine-{build}.txt"
    extra = shlex.split(os.environ.get("HEADWORKS_ENGINE_PIP_ARGS", ""))
    wanted = inputs_hash(requirements, also=build)
    folder = layout.cache / f"engine-{wanted}"
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder, "installing the engine's environment"):
        if is_whole(folder, wanted):
            say.step("Engine's environment: up to date")
        else:
            _install_engine(layout, folder, requirements, build, extra)
            (folder / MARKER).write_text(wanted + "\n", encoding="utf-8")
    _link(layout.engine_link, folder)
    return layout.engine_link / "bin" / "python"


def _install_engine(layout: Layout, folder: Path, requirements: Path, build: str, extra: list[str]) -> None:
    preflight.check_disk(folder, preflight.FIRST_RUN_BYTES if build == "cpu" else 3 * preflight.FIRST_RUN_BYTES)
    say.step(f"Engine's environment: installing vLLM for {build.upper()} (once per user; two minutes, 3.5 GB)")
    log = layout.logs / "install-engine.log"
    make_venv(folder, log)
    python = folder / "bin" / "python"
    # The CPU list is complete, so nothing needs to be resolved; and what breaks transformers is not even downloaded.
    # What is imported is compiled then; compiling all of PyTorch beforehand takes longer than that ever saves.
    whole = ["--no-compile", *(["--no-deps"] if build == "cpu" else [])]
    what = "installing the engine's packages"
    try:
        pip_install(python, [*whole, *extra, "-r", str(requirements)], what, log)
    except LauncherError:
        _empty(folder)  # gigabytes of a failed attempt help nobody
        raise
    if build == "cpu":
        run_saying([str(python), "-m", "pip", "uninstall", "--yes", "--quiet", *UNWANTED], "tidying up", log)


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _link(link: Path, target: Path) -> None:
    """Points `.venv-engine` at the environment; a real folder of that name is a person's own and is left alone."""
    if link.is_symlink() and link.readlink() == target:
        return
    if link.exists() and not link.is_symlink():
        raise LauncherError(f"{link} is a folder, and the launcher wants to put a link there. Move it away.")
    scratch = link.with_name(f"{link.name}.new")
    scratch.unlink(missing_ok=True)
    scratch.symlink_to(target)
    scratch.replace(link)
