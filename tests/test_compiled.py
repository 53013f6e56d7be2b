from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys
import typing
from pathlib import Path

import msgspec
import pytest

from controlplane import compiled
from controlplane.domain.routing import RoutingSnapshot

NAMES = [compiled.module_name(one) for one in compiled.sources()]


def classes_of(shape: object) -> set[type]:
    """All dataclasses and structs that a wire contract is made of."""
    if isinstance(shape, type) and (dataclasses.is_dataclass(shape) or issubclass(shape, msgspec.Struct)):
        found = {shape}
        for hint in typing.get_type_hints(shape, include_extras=True).values():
            found |= classes_of(hint)
        return found
    return set().union(*(classes_of(one) for one in typing.get_args(shape)))


def test_nothing_that_comes_over_the_wire_is_compiled() -> None:
    """msgspec reads annotations, and compiled classes do not keep them."""
    contracts = classes_of(RoutingSnapshot)
    assert len(contracts) > 8
    assert {one.__module__ for one in contracts}.isdisjoint(NAMES)
    for name in NAMES:
        own = [one for one in vars(importlib.import_module(name)).values() if getattr(one, "__module__", "") == name]
        assert not [one for one in own if isinstance(one, type) and issubclass(one, msgspec.Struct)], name


def test_all_modules_are_there() -> None:
    assert len(NAMES) > 40
    assert not [one for one in compiled.sources() if not (compiled.ROOT / one).is_file()]


def test_a_build_is_of_the_sources_as_they_are(tmp_path: Path) -> None:
    for one in (
        *compiled.sources(),
        Path("requirements/compile.txt"),
        Path("controlplane/embedded/compile_gateway.py"),
    ):
        copy = tmp_path / one
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((compiled.ROOT / one).read_bytes())
    name = compiled.build_name(tmp_path)
    assert name == compiled.build_name()
    changed = tmp_path / compiled.sources()[0]
    changed.write_text(changed.read_text() + "# changed\n")
    assert compiled.build_name(tmp_path) != name


def ask(what: str, **environment: str) -> str:
    code = f"from controlplane import compiled\nprint(compiled.use())\n{what}"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": "/usr/bin", **environment}, cwd=compiled.ROOT, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    return done.stdout


WHERE = "from controlplane.gateway import gate; print(gate.__file__)"


def test_without_a_build_the_modules_run_as_they_are(tmp_path: Path) -> None:
    assert ask(WHERE, HEADWORKS_COMPILED=str(tmp_path)).split() == [
        "False",
        str(compiled.ROOT / "controlplane/gateway/gate.py"),
    ]


def test_a_build_that_can_not_be_loaded_here_keeps_no_gateway_from_running(tmp_path: Path) -> None:
    build = tmp_path / compiled.build_name()
    build.mkdir()
    (build / f"{compiled.SHARED}{compiled.SUFFIX}").write_bytes(b"made for another machine")
    assert ask(WHERE, HEADWORKS_COMPILED=str(tmp_path)).split() == [
        "False",
        str(compiled.ROOT / "controlplane/gateway/gate.py"),
    ]


@pytest.mark.skipif(not (compiled.folder() / compiled.build_name()).is_dir(), reason="nothing is built: make prepare")
def test_a_build_is_used_unless_it_is_not_wanted() -> None:
    used, file = ask(f"{WHERE}", HEADWORKS_COMPILED=str(compiled.folder())).split()
    assert (used, Path(file).suffix) == ("True", ".so")
    assert Path(file).is_relative_to(compiled.folder() / compiled.build_name())
    assert ask(WHERE, HEADWORKS_COMPILED="off").startswith("False")
