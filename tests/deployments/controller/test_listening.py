from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import redis

from controlplane.deployments.controller import listening
from controlplane.deployments.controller.listening import Listener, without_nul
from controlplane.lib import keys, valkey, wire
from tests.deployments.controller.reporting import Reporter, make_observed
from tests.deployments.controller.running import say

pytestmark = pytest.mark.services

NOW = 1_800_000_000.0


@pytest.fixture
def client(valkey_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[redis.Redis]:
    monkeypatch.setattr(listening, "BLOCK_MS", 1)
    client = valkey.connect(valkey_server)
    yield client
    client.close()


def heard(listener: Listener, now: float = NOW) -> list[tuple[str, int]]:
    return [(one.report.node, one.report.sequence) for one in listener.read(now)]


def test_only_the_newest_of_each_worker_is_heard(client: redis.Redis) -> None:
    listener, first, second = Listener(client), Reporter("n1"), Reporter("n2")
    assert heard(listener) == []
    for reporter in (first, second, first, first):
        say(client, reporter.report())
    assert heard(listener) == [("n2", 1), ("n1", 3)]


def test_of_two_workers_with_one_name_both_are_heard(client: redis.Redis) -> None:
    listener, first, second = Listener(client), Reporter(), Reporter(incarnation="twin", machine="m2")
    heard(listener)
    for reporter in (first, second, first, second):
        say(client, reporter.report())
    assert heard(listener) == [("n1", 2), ("n1", 2)]


def test_everything_that_came_meanwhile_is_taken_at_once(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "AT_ONCE", 10)
    listener = Listener(client)
    heard(listener)
    nodes = [f"n{number}" for number in range(45)]
    for node in nodes:
        say(client, Reporter(node).report())
    assert [node for node, _ in heard(listener)] == nodes


def test_who_stood_still_has_not_listened(client: redis.Redis) -> None:
    listener = Listener(client)
    for now, since in ((0, 0), (1, 0), (3, 0), (63, 63), (64, 63), (64 - 3600, 64 - 3600), (65 - 3600, 64 - 3600)):
        heard(listener, NOW + now)
        assert listener.since == NOW + since


def test_a_stream_that_was_made_anew_by_a_clock_that_is_behind_is_heard(client: redis.Redis) -> None:
    listener, reporter = Listener(client), Reporter()
    say(client, reporter.report())
    heard(listener)
    client.flushall()
    client.xadd(keys.observations(), {"report": wire.encode(reporter.report())}, id="1000-0")
    assert heard(listener) == []  # this read finds out
    assert heard(listener) == [("n1", 2)]


def test_what_can_not_be_read_is_told_once_a_minute(client: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener(client)
    heard(listener)
    for after_s in (1, 3, 5):
        client.xadd(keys.observations(), {"report": b"\xff{"})
        client.xadd(keys.observations(), {"other": b"x"})
        say(client, Reporter().report())
        assert heard(listener, NOW + after_s) == [("n1", 1)]
    assert len(caplog.records) == 1


def test_a_node_s_clock_is_compared_with_that_of_valkey(client: redis.Redis) -> None:
    listener, reporter = Listener(client), Reporter()
    heard(listener)
    client.xadd(
        keys.observations(), {"report": wire.encode(reporter.report(reported_at=9e9 + 3600.5))}, id="9000000000000-0"
    )
    assert [one.clock_ahead_s for one in listener.read(NOW)] == [3600.5]


@pytest.mark.parametrize("text", ["\x00", "a\x00b\x00", "\\\x00", "\\u0000", "\\\\u0000\x00", 'ü\x00\n"', "plain"])
def test_nul_is_taken_out_and_nothing_else(text: str) -> None:
    data = json.dumps({"text": text}).encode()
    assert json.loads(without_nul(data)) == {"text": text.replace("\x00", "")}


def test_a_report_with_nul_anywhere_is_heard_without_it(client: redis.Redis) -> None:
    listener = Listener(client)
    heard(listener)
    say(client, Reporter().report(make_observed("r", url="http://x\x00y", command=("a\x00", "b"))))
    (one,) = listener.read(NOW)
    assert (one.report.replicas[0].url, one.report.replicas[0].command) == ("http://xy", ("a", "b"))
