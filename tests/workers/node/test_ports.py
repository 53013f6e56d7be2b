from __future__ import annotations

import socket

import pytest

from controlplane.env import SettingError
from workers.node import ports


def test_no_port_is_handed_out_twice() -> None:
    taken = ports.PortRange(20000, 29999)
    assert len({taken.take("127.0.0.1") for _ in range(50)}) == 50


def test_a_port_in_use_is_passed_over() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        used = other.getsockname()[1]
        assert ports.PortRange(used, used + 20).take("127.0.0.1") != used


def test_an_exhausted_range_says_so_and_a_port_given_back_is_used_again() -> None:
    one = ports.PortRange(29990, 29999)
    port = one.take("127.0.0.1")
    for other in range(29990, 30000):
        one.hold(other)
    with pytest.raises(ports.NoPortError, match="HEADWORKS_ENGINE_PORTS"):
        one.take("127.0.0.1")
    one.give_back(port)
    assert one.take("127.0.0.1") == port


@pytest.mark.parametrize("text", ["20000", "a-b", "30000-20000", "80-90", "60000-70000"])
def test_a_range_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWORKS_ENGINE_PORTS", text)
    with pytest.raises(SettingError, match="HEADWORKS_ENGINE_PORTS"):
        ports.from_environment()
