"""The socket as a browser has it: a real server process, a real client, a Valkey that is killed and comes back."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import websockets
from django.db import connection, connections
from websockets.asyncio.client import ClientConnection, connect

from controlplane.embedded import valkey as embedded_valkey
from controlplane.lib import keys
from controlplane.lib import valkey as valkey_client
from controlplane.telemetry.services import notify
from tests.telemetry import live
from tests.telemetry.live import in_database

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]

CHAT = "deployment:chat"
REST = Path(__file__).resolve().parents[2] / "docs" / "rest.md"


class OwnValkey:
    """A Valkey of this test alone, which may be killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = embedded_valkey.url(folder / "v.sock")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = embedded_valkey.server_command(self._folder, self._folder / "v.sock", durable=True)
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            client = valkey_client.connect(self.url)
            try:
                client.ping()
                return
            except valkey_client.ERRORS:
                time.sleep(0.05)
            finally:
                client.close()
        raise AssertionError("Valkey did not start")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None


@pytest.fixture
def own_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnValkey]:
    made = OwnValkey(tmp_path_factory.mktemp("v"))
    made.start()
    yield made
    made.kill()


class Console:
    """The console's process on a port of its own."""

    def __init__(self, port: int, process: asyncio.subprocess.Process) -> None:
        self.port = port
        self.process = process
        self.origin = f"http://127.0.0.1:{port}"

    def open(self, cookie: str, origin: str | None = None, **options: Any) -> connect:
        return connect(
            f"ws://127.0.0.1:{self.port}/ws/telemetry/",
            origin=websockets.Origin(origin or self.origin),
            additional_headers={"Cookie": cookie},
            **options,
        )


@pytest.fixture
async def console(own_valkey: OwnValkey) -> AsyncIterator[Console]:
    await in_database(live.make_objects)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = connection.settings_dict
    database = f"postgresql:///{settings['NAME']}?host={settings['HOST']}&user={settings['USER']}"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(port), "--log-level", "warning",
        env={**os.environ, "REDIS_URL": own_valkey.url, "DATABASE_URL": database},
    )  # fmt: skip
    try:
        await reachable(port)
        yield Console(port, process)
    finally:
        if process.returncode is None:
            process.terminate()
            await asyncio.wait_for(process.wait(), 20)
        await in_database(connections.close_all)


async def reachable(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            assert time.monotonic() < deadline, "the console did not start"
            await asyncio.sleep(0.1)
        else:
            writer.close()
            await writer.wait_closed()
            return


async def cookie_of(role: str) -> str:
    return str(await in_database(live.make_session, await in_database(live.make_user, role)))


@asynccontextmanager
async def data_is_written(url: str) -> AsyncIterator[None]:
    """A producer that writes the deployment every second, through outages; `running` is the second it was written."""

    async def produce() -> None:
        while True:
            now = time.time()
            with suppress(*valkey_client.ERRORS):
                await live.write(url, CHAT, now, running=int(now))
            await asyncio.sleep(1.0 - time.time() % 1.0)

    producer = asyncio.create_task(produce())
    try:
        yield
    finally:
        producer.cancel()
        await asyncio.wait({producer})


async def next_frame(client: ClientConnection, kind: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            frame: dict[str, Any] = json.loads(await client.recv())
            if frame["type"] == kind:
                return frame


async def next_value(client: ClientConnection) -> dict[str, Any]:
    """The next sample that is no gap."""
    while (frame := await next_frame(client, "sample"))["values"]["running"] is None:
        pass
    return frame


async def subscribe(client: ClientConnection, **members: Any) -> None:
    await client.send(json.dumps({"type": "subscribe", "subjects": [CHAT], **members}))


async def test_samples_come_second_by_second_and_a_reconnect_brings_what_was_missed(
    console: Console, own_valkey: OwnValkey
) -> None:
    cookie = await cookie_of("viewer")
    async with data_is_written(own_valkey.url):
        async with console.open(cookie) as client:
            await subscribe(client)
            seconds = [(await next_value(client))["t"] for _ in range(4)]
        assert seconds == sorted(set(seconds))
        assert seconds[-1] - seconds[0] <= 5  # none is skipped for long
        await asyncio.sleep(2)
        async with console.open(cookie) as client:
            await subscribe(client, history_s=900)
            history = {one["t"]: one["running"] for one in (await next_frame(client, "history"))["samples"]}
            assert (await next_value(client))["t"] > max(history)
    assert all(history.get(second) is not None for second in range(seconds[0], seconds[-1] + 2))


async def test_the_example_of_the_documents_prints_samples(console: Console, own_valkey: OwnValkey) -> None:
    secret = await in_database(live.make_token, await in_database(live.make_user, "viewer"), "viewer")
    found = re.search(
        r"^    import asyncio, json, websockets\n(?:(?:    .*)?\n)+?(?=    # )", REST.read_text(), re.MULTILINE
    )
    assert found is not None
    printed: asyncio.Queue[str] = asyncio.Queue()
    names: dict[str, Any] = {"print": printed.put_nowait}
    exec(compile(textwrap.dedent(found[0]).replace("deployment:smollm2", CHAT), str(REST), "exec"), names)
    async with data_is_written(own_valkey.url):
        watching = asyncio.create_task(names["watch"](f"ws://127.0.0.1:{console.port}", secret))
        kinds = {json.loads(await asyncio.wait_for(printed.get(), 20))["type"] for _ in range(3)}
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    assert kinds == {"subscribed", "history", "sample"}


async def test_strangers_are_refused_by_the_real_server(console: Console) -> None:
    cookie = await cookie_of("administrator")
    for options in ({"origin": "http://evil.example"}, {"origin": "http://127.0.0.1:1"}, {"cookie": "x=y"}):
        with pytest.raises(websockets.InvalidStatus) as caught:
            async with console.open(**{"cookie": cookie, **options}):
                pass
        assert caught.value.response.status_code == 403
    with pytest.raises(websockets.InvalidStatus):
        async with connect(f"ws://127.0.0.1:{console.port}/ws/nothing/"):
            pass


async def test_a_valkey_that_was_killed_is_said_and_everything_comes_back(
    console: Console, own_valkey: OwnValkey
) -> None:
    async with data_is_written(own_valkey.url), console.open(await cookie_of("viewer")) as client:
        await subscribe(client)
        await next_value(client)
        own_valkey.kill()
        assert (await next_frame(client, "error"))["code"] == "unavailable"
        own_valkey.start()
        killed_at = time.time()
        while (await next_value(client))["t"] < killed_at:
            pass
        # the listening has come back too: a change that is announced arrives
        for _ in range(20):
            publish_change(own_valkey.url)
            try:
                async with asyncio.timeout(1):
                    event = await next_frame(client, "event")
                    break
            except TimeoutError:
                continue
        assert event["object_id"] == "chat"


def publish_change(url: str) -> None:
    message = {"object_kind": "deployment", "object_id": "chat", "verb": "scaled"}
    client = valkey_client.connect(url)
    client.publish(keys.announced(notify.CHANGES), json.dumps(message))
    client.close()


async def test_sigterm_ends_the_server_although_sockets_are_open(console: Console, own_valkey: OwnValkey) -> None:
    async with data_is_written(own_valkey.url), console.open(await cookie_of("viewer")) as client:
        await subscribe(client)
        await next_value(client)
        console.process.send_signal(signal.SIGTERM)
        with pytest.raises(websockets.ConnectionClosed) as caught:
            while True:
                await client.recv()
        assert await asyncio.wait_for(console.process.wait(), 10) in (0, -signal.SIGTERM)
    assert caught.value.rcvd is not None and caught.value.rcvd.code == 1012


async def test_a_client_that_does_not_read_hinders_nobody(console: Console, own_valkey: OwnValkey) -> None:
    cookie = await cookie_of("viewer")
    async with (
        data_is_written(own_valkey.url),
        console.open(cookie, max_queue=1, close_timeout=1) as slow,
        console.open(cookie) as quick,
    ):
        for _ in range(300):  # answers pile up in the slow client's buffers until the server can't send
            await slow.send(json.dumps({"type": "subscribe", "subjects": [CHAT], "history_s": 900}))
        await subscribe(quick)
        seconds = [(await next_value(quick))["t"] for _ in range(3)]
        assert seconds == sorted(set(seconds))
