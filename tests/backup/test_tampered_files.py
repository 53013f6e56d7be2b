"""A backup that somebody wrote by hand, with a hash that fits: nothing but what backups hold gets in, and what does not
fit is one sentence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controlplane.accounts.models import User
from controlplane.backup import dump, load
from controlplane.domain.errors import RefusedError
from tests.backup.test_backup import empty, lines, make_installation

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]

Line = dict[str, Any]


def make_tampered(path: Path, change: Callable[[list[Line]], None]) -> None:
    """Writes a backup, empties the database, and changes the lines of the file; its end fits them."""
    make_installation()
    dump.dump(path, secrets=True, telemetry=False)
    empty()
    old = lines(path)
    change(old)
    text = "".join(json.dumps(one) + "\n" for one in old[:-1])
    path.write_text(text + json.dumps({**old[-1], "sha256": hashlib.sha256(text.encode()).hexdigest()}) + "\n")


@pytest.mark.parametrize(
    "line",
    [
        {"model": "sessions.Session", "row": {"session_key": "x", "session_data": "y", "expire_date": "2030-01-01"}},
        {"model": "contenttypes.ContentType", "row": {}},
        {"model": "nothing.Here", "row": {}},
        {"model": "", "row": {}},
        {"model": ["accounts.User"], "row": {}},
        {"model": {}, "row": {}},
        {"model": "accounts.User"},
        {"model": "accounts.User", "row": []},
        {"model": "accounts.User", "row": {"no": "such column"}},
        {"model": "accounts.User", "row": {"id": "x" * 1000}},
        {"model": "telemetry.RollupMinute", "row": {}},
        {"model": "telemetry.RollupMinute", "row": {"minute": "never"}},
        {"rows": []},
        {"rows": {"a": {}}},
    ],
)
def test_a_line_that_no_backup_has_restores_nothing(tmp_path: Path, line: Line) -> None:
    def add(old: list[Line]) -> None:
        old.insert(-1, line)
        model = line.get("model")
        if isinstance(model, str):
            old[-1]["rows"][model] = old[-1]["rows"].get(model, 0) + 1

    make_tampered(tmp_path / "b", add)
    with pytest.raises(RefusedError):
        load.load(tmp_path / "b")
    assert not User.objects.exists()


@pytest.mark.parametrize("name", ["format", "version", "migrations", "snapshot_version"])
@pytest.mark.parametrize("value", [None, "x", [1], [["a"]], {}, 2**80])
def test_a_head_that_no_backup_has_restores_nothing(tmp_path: Path, name: str, value: object) -> None:
    make_tampered(tmp_path / "b", lambda old: old[0].update({name: value}))
    with pytest.raises(RefusedError):
        load.load(tmp_path / "b")
    assert not User.objects.exists()
