"""The gateway's path compiled to machine code: the same modules, translated by mypyc, used where they were built.

Guarantees
    A build is named after all that it was made from, so code of an older checkout is never run. Where there is none, or
    none that this machine can load, the modules run as they are, with the same results, for about twice the CPU.
Does not do
    Build: `controlplane.embedded.compiling` does, with `make prepare`. Touch any process that does not call `use`.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from controlplane import env

logger = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[1]
OFF = "off"
GROUP = "headworks_gateway"  # names the library that all of them share
SHARED = f"{GROUP}__mypyc"
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]

# What a request passes through. Left out are the contracts that come over the wire: msgspec reads their annotations,
# which compiled classes do not keep (`tests/test_compiled.py` finds them).
PACKAGES = ("domain/admission", "domain/quotas")
NOT = frozenset({"domain/admission/policy.py", "domain/admission/tiers.py", "domain/quotas/quota.py"})
FILES = (
    *(f"domain/{name}.py" for name in ("media", "steering", "tier_degradation")),
    *(f"lib/{name}.py" for name in ("histograms", "plain_usage", "sse", "upstream_connection")),
    *(
        f"gateway/{name}.py"
        for name in (
            "asks", "calls", "client", "connection", "gate", "heads", "metering", "plain_answer", "quotas", "reading",
            "refusals", "relay", "seating", "sizes",
        )
    ),
)  # fmt: skip


def sources(root: Path = ROOT) -> list[Path]:
    """Returns the files that are compiled, relative to the checkout, in order."""
    base = root / "controlplane"
    found = [base / one for one in FILES]
    for package in PACKAGES:
        found += sorted((base / package).glob("*.py"))
    kept = (one for one in found if one.name != "__init__.py" and str(one.relative_to(base)) not in NOT)
    return [one.relative_to(root) for one in kept]


def module_name(source: Path) -> str:
    """Returns the dotted name of a source, such as `controlplane.gateway.gate`."""
    return ".".join(source.with_suffix("").parts)


def build_name(root: Path = ROOT) -> str:
    """Returns what a build of the sources as they are now is called."""
    digest = hashlib.sha256(f"{SUFFIX}\n".encode())
    for one in (*sources(root), Path("requirements/compile.txt"), Path("controlplane/embedded/compile_gateway.py")):
        digest.update(f"{one}\n".encode())
        digest.update((root / one).read_bytes())
    return f"gateway-{digest.hexdigest()[:16]}"


def folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Returns where builds lie: `HEADWORKS_COMPILED`, else in the user's cache."""
    named = environ.get("HEADWORKS_COMPILED", "")
    return Path(named).absolute() if named else env.cache_folder() / "compiled"


def use(environ: Mapping[str, str] = os.environ) -> bool:
    """Has the modules imported from their build from now on; returns False where there is none, or it is not wanted."""
    if environ.get("HEADWORKS_COMPILED") == OFF:
        logger.info("the gateway runs uncompiled, as HEADWORKS_COMPILED says")
        return False
    build = folder(environ) / build_name()
    if not build.is_dir():
        logger.warning("the gateway runs uncompiled, for about twice the CPU: make prepare builds %s", build)
        return False
    finder = _Finder(build)
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module(SHARED)  # holds all of them; runs none yet
    except ImportError as error:  # a cache that came from another machine, with a newer C library
        sys.meta_path.remove(finder)
        logger.warning("the gateway runs uncompiled, for about twice the CPU: %s can't be loaded: %s", build, error)
        return False
    with contextlib.suppress(OSError):
        build.touch()  # so that it is not taken for one that nobody uses
    return True


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the compiled modules of one build."""

    def __init__(self, build: Path) -> None:
        self._files = {module_name(one): build / one.with_suffix(SUFFIX) for one in sources()}
        self._files[SHARED] = build / f"{SHARED}{SUFFIX}"

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        file = self._files.get(name)
        return None if file is None else importlib.util.spec_from_file_location(name, file)
