from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.embedded import proc
from controlplane.embedded.children import Child, Service
from controlplane.embedded.stack import Stack
from tests.embedded.conftest import MakeStack

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('here', flush=True)
time.sleep(600)
"""


def start_stubborn(running: Stack, name: str, patience_s: float) -> Child:
    service = Service(name, (sys.executable, "-c", STUBBORN), dict(os.environ), stop_patience_s=patience_s)
    child = running.start(service)
    assert proc.wait_until(lambda: "here" in child.log.read_text(), 20)
    return child


def test_who_does_not_end_by_himself_is_killed(
    make_stack: MakeStack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = make_stack(tmp_path)
    child = start_stubborn(running, "worker", patience_s=0.2)
    assert running.stop() == []
    assert not child.is_running()
    assert "worker does not end by itself" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["gateway", "console"])
def test_a_second_request_to_end_waits_for_nobody(
    make_stack: MakeStack, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    running = make_stack(tmp_path)
    child = start_stubborn(running, name, patience_s=300)
    with subprocess.Popen(["/bin/sh", "-c", f"sleep 0.5; kill -INT {os.getpid()}"]):
        assert running.stop() == []
    assert not child.is_running()
    assert f"Killing {name}" in capsys.readouterr().out
