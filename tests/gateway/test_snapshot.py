"""Where the routing snapshot comes from, and serving on without its source."""

from __future__ import annotations

import asyncio
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import redis

from controlplane.domain.routing import SNAPSHOT_MAX_AGE_S, SNAPSHOT_SCHEMA, RoutingSnapshot
from controlplane.embedded import valkey as embedded_valkey
from controlplane.lib import keys, wire
from tests.gateway.conftest import Running, StartGateway, make_deployment, make_snapshot, until, write_snapshot
from tests.gateway.engine import Engine

DEEP = b'{"schema":1,"version":2,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
DEEPER = b'{"schema":1,"version":2,"published_at":1,"deployments":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"


def publish(snapshot: RoutingSnapshot | bytes, url: str, *, notice: bool = True) -> None:
    raw = snapshot if isinstance(snapshot, bytes) else wire.encode(snapshot)
    with redis.Redis.from_url(url) as client:
        client.set(keys.snapshot(), raw)
        if notice:
            client.publish(keys.snapshot_changed(), "1")


async def until_version(gateway: Running, version: int) -> None:
    await until(lambda: gateway.process.snapshots.version == version)


async def test_a_gateway_starts_from_the_kept_snapshot_while_valkey_is_down(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url), version=7))
        assert (await gateway.get("/readyz")).status == 200
        assert (await gateway.chat()).status == 200
    assert gateway.process.snapshots.source == "disk"
    assert not gateway.process.snapshots.valkey_up


async def test_a_kept_snapshot_older_than_a_day_is_not_used(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot(published_at=time.time() - SNAPSHOT_MAX_AGE_S - 60))
    assert (await gateway.chat()).code == "no_snapshot"


async def test_a_kept_snapshot_of_a_clock_far_ahead_is_not_used(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment(), published_at=time.time() + SNAPSHOT_MAX_AGE_S + 60))
    assert (await gateway.chat()).code == "no_snapshot"


async def test_a_snapshot_that_grows_too_old_while_serving_ends_it(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment(), published_at=time.time() - SNAPSHOT_MAX_AGE_S + 1))
    assert (await gateway.chat()).code == "no_replica"
    await asyncio.sleep(1.1)
    got = await gateway.chat()
    assert got.code == "no_snapshot"
    assert "24 hours" in got.json["error"]["message"]


@pytest.mark.parametrize("raw", [b"", b"{", b'{"schema": 1}', b"\x00\xff", b"[" * 100_000, DEEP, DEEPER])
async def test_a_broken_kept_snapshot_is_as_good_as_none(
    start_gateway: StartGateway, tmp_path: Path, raw: bytes
) -> None:
    (tmp_path / "gateway").mkdir()
    (tmp_path / "gateway" / "snapshot.json").write_bytes(raw)
    gateway = await start_gateway()
    assert (await gateway.chat()).code == "no_snapshot"


@pytest.mark.services
async def test_a_published_snapshot_is_served_from_and_kept_for_its_owner_only(
    start_gateway: StartGateway, valkey_server: str, tmp_path: Path
) -> None:
    gateway = await start_gateway(redis_url=valkey_server)
    async with Engine() as engine:
        publish(make_snapshot(make_deployment(engine.url), version=3), valkey_server)
        await until_version(gateway, 3)
        assert (await gateway.chat()).status == 200
    kept = tmp_path / "gateway" / "snapshot.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert wire.decode(kept.read_bytes(), RoutingSnapshot).version == 3
    assert gateway.process.snapshots.source == "valkey"


@pytest.mark.services
async def test_a_snapshot_is_found_by_polling_when_its_notice_got_lost(
    start_gateway: StartGateway, valkey_server: str
) -> None:
    gateway = await start_gateway(redis_url=valkey_server)
    publish(make_snapshot(version=4), valkey_server, notice=False)
    await until_version(gateway, 4)


@pytest.mark.services
async def test_older_versions_and_unknown_schemas_are_refused(start_gateway: StartGateway, valkey_server: str) -> None:
    publish(make_snapshot(version=5), valkey_server)
    gateway = await start_gateway(redis_url=valkey_server)
    await until_version(gateway, 5)
    snapshots = gateway.process.snapshots
    refused: list[RoutingSnapshot | bytes] = [
        make_snapshot(version=4),
        make_snapshot(version=6, schema=SNAPSHOT_SCHEMA + 1),
        b'{"schema": 1, "version": 9, "published_at": "soon"}',
    ]
    refused += [DEEP, DEEPER]
    for number, one in enumerate(refused, start=1):
        publish(one, valkey_server)
        await until(lambda: snapshots.refused_count >= number)  # noqa: B023 - awaited within the round
    publish(make_snapshot(version=7, schema=SNAPSHOT_SCHEMA - 1), valkey_server)
    await until_version(gateway, 7)


@pytest.mark.services
async def test_a_newer_version_replaces_the_kept_one_at_start(
    start_gateway: StartGateway, valkey_server: str, tmp_path: Path
) -> None:
    write_snapshot(tmp_path, make_snapshot(version=5))
    publish(make_snapshot(version=6), valkey_server)
    gateway = await start_gateway(redis_url=valkey_server)
    await until_version(gateway, 6)


@pytest.mark.services
async def test_replicas_that_leave_the_snapshot_get_nothing_new_and_running_streams_go_on(
    start_gateway: StartGateway, valkey_server: str
) -> None:
    async with Engine() as old, Engine() as new:
        publish(make_snapshot(make_deployment(old.url), version=1), valkey_server)
        gateway = await start_gateway(redis_url=valkey_server)
        await until_version(gateway, 1)
        await gateway.chat()
        publish(make_snapshot(make_deployment(new.url), version=2), valkey_server)
        await until_version(gateway, 2)
        await gateway.chat()
    assert (len(old.requests), len(new.requests)) == (1, 1)


async def test_the_only_good_replicas_of_a_snapshot_are_used(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment("ftp://nowhere", engine.url)))
        assert (await gateway.chat()).status == 200


@pytest.mark.services
async def test_a_gateway_serves_on_while_valkey_is_killed_and_follows_it_again_afterwards(
    start_gateway: StartGateway, tmp_path: Path
) -> None:
    socket = Path(tempfile.mkdtemp(prefix="hwv-")) / "v.sock"  # a socket's path may have 107 bytes
    command, url = embedded_valkey.server_command(tmp_path, socket, durable=False), embedded_valkey.url(socket)
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    second = None
    try:
        await until(socket.exists)
        async with Engine() as engine:
            publish(make_snapshot(make_deployment(engine.url), version=1), url)
            gateway = await start_gateway(redis_url=url)
            await until_version(gateway, 1)
            first.kill()
            first.wait()
            await until(lambda: not gateway.process.snapshots.valkey_up)
            assert (await gateway.chat()).status == 200
            socket.unlink()
            second = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            await until(socket.exists)
            publish(make_snapshot(make_deployment(engine.url), version=2), url, notice=False)
            await until_version(gateway, 2)
            assert gateway.process.snapshots.valkey_up
    finally:
        first.kill()
        if second is not None:
            second.kill()
            second.wait()
        shutil.rmtree(socket.parent)
