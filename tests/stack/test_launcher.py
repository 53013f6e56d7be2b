"""`make up` and `make down` for real: servers, processes, vLLM."""

from __future__ import annotations

import os
import signal
import socket
import stat
from pathlib import Path

import pytest

from controlplane.embedded import proc
from tests.stack.stack_process import RunningStack

pytestmark = pytest.mark.stack


def test_the_model_answers_through_the_gateway(running_stack: RunningStack) -> None:
    status, answer = running_stack.ask()
    assert status == 200, answer
    assert "Paris" in answer


def test_the_first_run_file_is_private_and_complete(running_stack: RunningStack) -> None:
    path = running_stack.home / "first-run.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((running_stack.home / "secret-key").stat().st_mode) == 0o600
    assert set(running_stack.first_run) == {
        "console_url", "username", "password", "api_token", "gateway_url", "gateway_key", "model",
    }  # fmt: skip
    assert all(running_stack.first_run.values())


def test_a_second_make_up_is_calm(running_stack: RunningStack) -> None:
    before = running_stack.launcher()
    for arguments in (("up",), ("up", "DETACH=1")):
        done = running_stack.make(*arguments)
        assert done.returncode == 0
        assert "already running" in done.stdout
    assert running_stack.launcher() == before


def test_servers_listen_on_no_network_address(running_stack: RunningStack) -> None:
    for name in ("postgres", "valkey"):
        process = running_stack.process(name)
        assert process is not None
        rows = [row.split() for table in ("tcp", "tcp6") for row in Path(f"/proc/net/{table}").read_text().splitlines()]
        listening = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}
        assert not listening & {str(entry.readlink()) for entry in Path(f"/proc/{process.pid}/fd").iterdir()}


def test_secrets_stand_in_no_command_line(running_stack: RunningStack) -> None:
    lines = [proc.command_line(pid) for pid in proc.all_pids()]
    for name in ("password", "api_token", "gateway_key"):
        assert not any(running_stack.first_run[name] in line for line in lines)


@pytest.mark.parametrize(
    "name", ["postgres", "valkey", "controller", "console", "worker", "beat", "node", "collector", "gateway"]
)
def test_a_killed_process_is_back_and_the_model_answers(running_stack: RunningStack, name: str) -> None:
    engines = running_stack.engines()
    killed = running_stack.kill(name)

    def is_back() -> bool:
        found = running_stack.process(name)
        return found is not None and found != killed and running_stack.ask(max_tokens=2)[0] == 200

    assert running_stack.wait(is_back, 60), (running_stack.home / "logs" / f"{name}.log").read_text()[-2000:]
    assert running_stack.engines() == engines


def test_engines_outlive_a_killed_launcher_and_are_adopted(running_stack: RunningStack) -> None:
    before = running_stack.engines()
    assert before
    launcher = running_stack.launcher()
    assert launcher is not None
    os.kill(launcher.pid, signal.SIGKILL)
    engine_processes = {member for engine in before for member in proc.group_members(engine.group)}
    assert running_stack.wait(lambda: not running_stack.process("gateway") and not running_stack.process("postgres"))
    assert all(map(proc.is_alive, engine_processes))
    with socket.create_server(("127.0.0.1", running_stack.gateway_port)):
        failed = running_stack.make("up", "DETACH=1")
    assert failed.returncode != 0
    assert f"Port {running_stack.gateway_port} (gateway) is in use by process {os.getpid()}" in failed.stdout
    assert running_stack.engines() == before, "a start that fails spares what serves"
    running_stack.up()
    assert running_stack.engines() == before
    assert "Paris" in running_stack.ask()[1]


def test_down_leaves_nothing_and_the_next_up_keeps_all_data(running_stack: RunningStack) -> None:
    before = running_stack.first_run
    groups = [engine.group for engine in running_stack.engines()]
    running_stack.down()
    assert running_stack.leftovers() == []
    assert [member for group in groups for member in proc.group_members(group)] == []
    assert running_stack.make("down").stdout.strip() == "Headworks is not running here."
    running_stack.up()
    assert running_stack.first_run == before
    assert "Paris" in running_stack.ask()[1]


def test_down_ends_what_a_killed_launcher_has_left(running_stack: RunningStack) -> None:
    launcher = running_stack.launcher()
    assert launcher is not None
    os.kill(launcher.pid, signal.SIGKILL)
    running_stack.down()
    assert running_stack.leftovers() == []
    running_stack.up()
