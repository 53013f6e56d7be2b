"""What the gateway counts of real requests."""

from __future__ import annotations

import pytest

from controlplane.domain.rollups import Rollup
from controlplane.domain.routing import RoutedKey
from controlplane.gateway.gates import Gates
from controlplane.gateway.metering import Meter, Series, Tally
from controlplane.gateway.sampling import Sampler
from tests.gateway.conftest import StartGateway, make_deployment, make_snapshot
from tests.gateway.engine import DONE, LAST_CHUNK, Engine, Peer, Request, chunk, event, head

KEY = RoutedKey("key-1", "tenant-1", "acme")


async def test_a_stream_gives_all_three_latencies_and_a_plain_answer_only_the_whole(
    start_gateway: StartGateway,
) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        await gateway.chat(stream=True)
        await gateway.until_idle()
        streamed = gateway.process.meter.series["chat", "r0"].now.histograms()
        await gateway.chat()
        await gateway.until_idle()
    whole = gateway.process.meter.series["chat", "r0"].now.histograms()
    assert {name: sum(counts.values()) for name, counts in streamed.items()} == {"ttft": 1, "tpot": 1, "e2e": 1}
    assert {name: sum(counts.values()) for name, counts in whole.items()} == {"ttft": 1, "tpot": 1, "e2e": 2}


async def test_usage_is_counted_by_key_and_deployment_from_the_engines_own_figures(
    start_gateway: StartGateway,
) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url), make_deployment(name="empty")))
        await gateway.chat(stream=True)
        await gateway.chat()
        await gateway.ask({"model": "empty"})
        await gateway.until_idle()
    gateway.process.outbox._take_usage()
    rows = {(key[1:], (used.requests, used.errors, used.prompt_tokens, used.completion_tokens))
            for key, used in gateway.process.outbox._pending.items()}  # fmt: skip
    assert rows == {(("acme", "key-1", "chat"), (2, 0, 14, 6)), (("acme", "key-1", "empty"), (1, 1, 0, 0))}


async def test_without_usage_each_event_counts_as_a_token(start_gateway: StartGateway) -> None:
    async def silent(_: Request, peer: Peer) -> None:
        await peer.send(head(kind="text/event-stream"), *[chunk(event())] * 4, chunk(DONE), LAST_CHUNK)

    async with Engine(silent) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        await gateway.chat(stream=True)
        await gateway.until_idle()
    assert gateway.process.meter.series["chat", "r0"].now.output_tokens == 4


async def test_metrics_are_shown_to_the_allowed_networks_and_never_through_an_unknown_proxy(
    start_gateway: StartGateway,
) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        await gateway.chat(stream=True)
        await gateway.until_idle()
        gateway.process._turn()
        shown = await gateway.get("/metrics")
        hidden = await gateway.get("/metrics", {"x-forwarded-for": "127.0.0.1"})
    lines = shown.body.decode().splitlines()
    assert 'headworks_gateway_requests_total{deployment="chat",model="chat",status="200"} 1' in lines
    assert 'headworks_gateway_ttft_seconds_bucket{deployment="chat",model="chat",le="+Inf"} 1' in lines
    assert 'headworks_gateway_in_flight{deployment="chat",model="chat",replica="r0"} 0' in lines
    assert 'headworks_gateway_snapshot_source{source="disk"} 1' in lines
    assert "headworks_gateway_valkey_up 0" in lines
    assert hidden.status == 403


def test_a_deployment_without_traffic_has_samples_of_zero_not_of_nothing() -> None:
    meter = Meter()
    turn = Sampler(meter, Gates(meter, 503), "gateway:g").turn(100.0, make_snapshot(make_deployment("http://x")))
    assert {part.subject: part.values["requests_per_s"] for part in turn.parts} == {
        "deployment:chat": 0,
        "replica:r0": 0,
    }
    assert all(not part.histograms for part in turn.parts)


def test_the_window_is_the_sum_of_the_last_minute_and_no_more() -> None:
    series = Series()
    for second in range(200):
        series.now.requests = 1
        series.now.ttft = {second % 7: 1}
        series.turn()
    assert series.window.requests == 60
    assert sum(series.window.ttft.values()) == 60
    for _ in range(60):
        series.turn()
    assert (series.window.requests, series.window.ttft, series.quiet) == (0, {}, True)


def test_each_slot_of_ten_seconds_gives_one_rollup_a_subject_with_what_happened_in_it() -> None:
    meter = Meter()
    sampler = Sampler(meter, Gates(meter, 503), "gateway:g")
    snapshot = make_snapshot(make_deployment("http://x"))
    rollups: list[Rollup] = []
    for second in range(31):
        meter.refused(KEY, "chat", 503)
        rollups += sampler.turn(1000.02 + second, snapshot).rollups
    of_deployment = [one for one in rollups if one.subject == "deployment:chat"]
    assert [one.start_s for one in of_deployment] == [1000, 1010, 1020]
    assert [one.counters["requests"] for one in of_deployment] == [10, 10, 10]
    assert [one.counters["errors"] for one in of_deployment] == [10, 10, 10]


def test_what_left_the_snapshot_is_forgotten_after_its_last_request_is_a_window_old() -> None:
    meter = Meter()
    sampler = Sampler(meter, Gates(meter, 503), "gateway:g")
    meter.refused(KEY, "gone", 503)
    for second in range(62):
        sampler.turn(100.0 + second, None)
    assert meter.series == {}
    assert sampler.lifetime["gone"].requests == 1, "a counter of Prometheus must not go back"


def test_a_tally_taken_away_leaves_what_was_before() -> None:
    one, other = Tally(), Tally()
    one.ttft, other.ttft = {1: 2}, {1: 1, 2: 5}
    one.add(other)
    one.take_away(other)
    assert one.ttft == {1: 2}


@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_rates_are_for_the_time_that_really_passed(seconds: float) -> None:
    meter = Meter()
    sampler = Sampler(meter, Gates(meter, 503), "gateway:g")
    sampler.turn(100.0, None)
    for _ in range(4):
        meter.refused(KEY, "chat", 503)
    parts = sampler.turn(100.0 + seconds, None).parts
    assert parts[0].values["requests_per_s"] == 4 / seconds
