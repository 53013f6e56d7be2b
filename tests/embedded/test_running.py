from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.embedded import children, proc, running, settings
from controlplane.embedded.children import Child, Service

MakeStackOf = Callable[..., Path]
THEIRS = {
    "DATABASE_URL": "postgresql:///theirs",
    "REDIS_URL": "unix:///theirs",
    "HEADWORKS_SECRET_KEY_FILE": "/theirs",
    "HEADWORKS_NAMESPACE": "theirs",
    settings.MARK: "/home",
    "HOME": "/theirs",
}


@pytest.fixture
def make_stack_of(tmp_path: Path) -> Iterator[MakeStackOf]:
    """Makes a data folder in which a controller with this environment runs."""
    made: list[Child] = []

    def make(environ: dict[str, str]) -> Path:
        child = Child(Service("controller", ("/bin/sleep", "600"), environ), tmp_path / "log", tmp_path)
        child.start(0.0)
        assert child.process is not None
        pid = child.process.pid
        # before, it has that of its parent, and none for a moment while one program becomes the next
        assert proc.wait_until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", 20)
        assert proc.wait_until(lambda: proc.environment(pid) == environ, 20)
        made.append(child)
        children.remember(made, tmp_path / "children.json")
        return tmp_path

    yield make
    for child in made:
        child.kill()


def test_the_settings_are_those_of_the_stack(make_stack_of: MakeStackOf) -> None:
    taken = running.settings_to_take(make_stack_of(THEIRS), {"HOME": "/mine"})
    assert taken == {name: THEIRS[name] for name in THEIRS if name not in ("HOME", settings.MARK)}


def test_what_is_given_stays(make_stack_of: MakeStackOf) -> None:
    home = make_stack_of(THEIRS)
    taken = running.settings_to_take(home, {"HEADWORKS_SECRET_KEY": "mine", "HEADWORKS_NAMESPACE": "mine"})
    assert taken == {"DATABASE_URL": "postgresql:///theirs", "REDIS_URL": "unix:///theirs"}


@pytest.mark.parametrize("name", ["DATABASE_URL", "DATABASE_URL_FILE", "REDIS_URL", "REDIS_URL_FILE"])
def test_who_names_a_server_gets_nothing_of_the_stack(make_stack_of: MakeStackOf, name: str) -> None:
    assert running.settings_to_take(make_stack_of(THEIRS), {name: "mine"}) == {}


def test_a_stack_that_has_ended_gives_nothing(make_stack_of: MakeStackOf, tmp_path: Path) -> None:
    assert running.settings_to_take(tmp_path, {}) == {}
    home = make_stack_of(THEIRS)
    known = children.remembered(home / "children.json")["controller"]
    subprocess.run(["kill", "-9", str(known.pid)], check=True)
    assert proc.wait_until(lambda: not proc.is_alive(known), 10)
    assert running.settings_to_take(home, {}) == {}
