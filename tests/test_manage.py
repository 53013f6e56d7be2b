"""`manage.py` beside a stack of `make up`, beside none, and with servers that are named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from controlplane.accounts.models import User
from controlplane.embedded import children, proc
from controlplane.embedded.children import Child, Service

ROOT = Path(__file__).resolve().parents[1]


def manage(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HEADWORKS_HOME": str(home), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def home_of_a_stack(tmp_path: Path, transactional_db: None, valkey_server: str) -> Iterator[Path]:
    """A data folder as `make up` leaves it while it runs; its controller knows the servers and does nothing."""
    (tmp_path / "secret-key").write_text("a secret of its own\n")
    database = connection.settings_dict
    environ = {
        "DATABASE_URL": f"postgresql:///{database['NAME']}?host={database['HOST']}&user={database['USER']}",
        "REDIS_URL": valkey_server,
        "HEADWORKS_NAMESPACE": os.environ["HEADWORKS_NAMESPACE"],
        "HEADWORKS_SECRET_KEY_FILE": str(tmp_path / "secret-key"),
    }
    child = Child(Service("controller", ("/bin/sleep", "600"), environ), tmp_path / "log", tmp_path)
    child.start(0.0)
    assert child.process is not None
    pid = child.process.pid
    assert proc.wait_until(lambda: proc.environment(pid) == environ, 20)  # before, it has that of its parent
    children.remember([child], tmp_path / "children.json")
    yield tmp_path
    child.kill()


@pytest.mark.services
def test_backup_and_restore_work_beside_make_up(home_of_a_stack: Path, tmp_path: Path) -> None:
    User.objects.create_user("ada", password="a quiet long river")
    file = str(tmp_path / "backup.jsonl")
    done = manage(home_of_a_stack, "backup", file, "--with-secrets", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"]["accounts.User"] == 1
    User.objects.all().delete()
    done = manage(home_of_a_stack, "restore", file, "--replace", "--yes")
    assert done.returncode == 0, done.stderr
    assert User.objects.get().username == "ada"


@pytest.mark.parametrize("variables", [{}, {"HEADWORKS_SECRET_KEY": "x"}, {"HEADWORKS_DEBUG": "1"}])
def test_where_no_stack_runs_it_is_said_in_a_sentence(tmp_path: Path, variables: dict[str, str]) -> None:
    done = manage(tmp_path, "backup", str(tmp_path / "b"), **variables)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"No stack of make up runs in {tmp_path}" in done.stderr
    assert not (tmp_path / "b").exists()


def test_a_server_that_is_named_and_does_not_answer_is_said_in_a_sentence(tmp_path: Path) -> None:
    url = f"postgresql:///hw?host={tmp_path}"
    done = manage(tmp_path, "migrate", DATABASE_URL=url, HEADWORKS_SECRET_KEY="x")
    assert done.returncode == 1
    assert done.stderr.startswith("manage.py: The database does not answer: ")
    assert str(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr and "make up" not in done.stderr
