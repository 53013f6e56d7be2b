from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from controlplane.embedded import preflight
from controlplane.embedded.preflight import GB, Port, check_disk, check_ports, disk_problem, engine_build
from controlplane.embedded.problems import LauncherError


def listen() -> socket.socket:
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(1)
    return server


def port(number: int, what: str = "console") -> Port:
    return Port(what, f"HEADWORKS_{what.upper()}_PORT", number)


def test_a_port_in_use_names_the_process_and_the_variable() -> None:
    with listen() as server:
        number = server.getsockname()[1]
        with pytest.raises(LauncherError) as caught:
            check_ports("127.0.0.1", [port(number)])
    said = str(caught.value)
    assert f"Port {number} (console) is in use by process {os.getpid()}" in said
    assert f"HEADWORKS_CONSOLE_PORT={number + 1}" in said


def test_both_ports_in_use_are_said_at_once() -> None:
    with listen() as first, listen() as second:
        ports = [port(first.getsockname()[1]), port(second.getsockname()[1], "gateway")]
        with pytest.raises(LauncherError, match=r"console.*gateway"):
            check_ports("127.0.0.1", ports)


def test_free_ports_are_no_problem() -> None:
    with listen() as server:
        number = server.getsockname()[1]
    check_ports("127.0.0.1", [port(number)])


def test_one_port_for_two_things_is_refused() -> None:
    with pytest.raises(LauncherError, match="same port"):
        check_ports("127.0.0.1", [port(8000), port(8000, "gateway")])


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(LauncherError, match=r"HEADWORKS_BIND=192\.0\.2\.1 is not an address of this machine"):
        check_ports("192.0.2.1", [port(18777)])


def test_too_little_room_says_how_much_is_needed() -> None:
    said = disk_problem("/data", 2 * GB, 6 * GB)
    assert said is not None
    assert "/data has 2.0 GB free and 6.0 GB are needed" in said
    assert disk_problem("/data", 6 * GB, 6 * GB) is None


def test_the_disk_of_a_folder_that_is_not_there_yet_is_its_parents(tmp_path: Path) -> None:
    check_disk(tmp_path / "a" / "b", 1)
    with pytest.raises(LauncherError, match="Too little room"):
        check_disk(tmp_path / "a" / "b", 10**18)


def test_the_engine_build_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWORKS_ENGINE_BUILD", "gpu")
    assert engine_build() == "gpu"
    monkeypatch.setenv("HEADWORKS_ENGINE_BUILD", "tpu")
    with pytest.raises(LauncherError, match="neither cpu nor gpu"):
        engine_build()


def test_nobody_listens_on_a_free_port() -> None:
    with listen() as server:
        number = server.getsockname()[1]
        assert preflight.listener(number) == os.getpid()
    assert preflight.listener(number) is None
