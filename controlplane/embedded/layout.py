"""Where the launcher keeps what it makes: the checkout, the data folder, the per-user cache and the sockets."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from controlplane import env
from controlplane.embedded.problems import LauncherError

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Layout:
    """All folders of one installation."""

    root: Path
    home: Path
    cache: Path

    @property
    def control_env(self) -> Path:
        return self.root / ".venv"

    @property
    def control_python(self) -> Path:
        return self.control_env / "bin" / "python"

    @property
    def engine_link(self) -> Path:
        return self.root / ".venv-engine"

    @property
    def model(self) -> Path:
        return self.cache / "models" / "smollm2-135m-instruct"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def first_run(self) -> Path:
        return self.home / "first-run.json"

    @property
    def secret_key(self) -> Path:
        return self.home / "secret-key"

    @property
    def state(self) -> Path:
        return self.home / "launcher.json"

    @property
    def sockets(self) -> Path:
        # not in the data folder: a socket's path may have 107 bytes at most
        digest = hashlib.sha256(str(self.home).encode()).hexdigest()[:10]
        return Path("/tmp") / f"hw-{os.geteuid()}-{digest}"  # noqa: S108 - made 0700 and checked below

    def make_home(self) -> None:
        """Makes the data folder and the log folder, for this user alone."""
        try:
            for folder in (self.home, self.logs):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise LauncherError(
                f"The data folder {self.home} can't be made ({error.strerror}). Set HEADWORKS_HOME to another place."
            ) from error

    def make_sockets(self) -> Path:
        """Makes the folder of the sockets; refuses one that somebody else has put there."""
        folder = self.sockets
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise LauncherError(f"{folder} is not a private folder of this user. Remove it and run make up again.")
        return folder


def here() -> Layout:
    """Returns the layout that the environment asks for."""
    return Layout(root=ROOT, home=env.headworks_home(), cache=env.cache_folder())


def base_python() -> str:
    """Returns the interpreter that new environments are made from, never one that lives in an environment."""
    return getattr(sys, "_base_executable", None) or sys.executable
