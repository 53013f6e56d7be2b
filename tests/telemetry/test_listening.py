"""Whatever ends the listening of a console process, it listens again, without a restart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from controlplane.lib import keys, tasks, valkey
from controlplane.telemetry import hub
from controlplane.telemetry.hub import Hub
from controlplane.telemetry.services import notify

pytestmark = pytest.mark.services

CHANGE = b'{"object_kind": "deployment", "object_id": "chat", "verb": "scaled"}'


class Page:
    """A socket that remembers what it was told, and fails the first time where it is broken."""

    def __init__(self, is_broken: bool = False) -> None:
        self.heard = asyncio.Event()
        self._is_broken = is_broken

    def tick(self) -> None:
        pass

    def changed(self, message: Mapping[str, Any]) -> None:
        if self._is_broken:
            self._is_broken = False
            raise RuntimeError("a page that can't")
        if message["object_id"] == "chat":
            self.heard.set()


class Relay:
    """A TCP way to Valkey, on which what is open at one moment can vanish: nothing comes and nothing ends any more."""

    def __init__(self, valkey_url: str) -> None:
        self.url = ""
        self._path = valkey_url.removeprefix("unix://").partition("?")[0]
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def lose_all(self) -> None:
        await tasks.end(*self._tasks)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self.lose_all()
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(self._path)
        self._writers += [writer, server_writer]
        for one, other in ((reader, server_writer), (server_reader, writer)):
            self._tasks.add(asyncio.create_task(self._copy(one, other)))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.close()


@pytest.fixture
async def listening(valkey_server: str) -> AsyncIterator[Hub]:
    one = Hub()
    yield one
    await one.close()


async def hears(page: Page, url: str) -> None:
    """Announces a change until the page has been told; a change that comes while nobody listens is lost to it."""
    page.heard.clear()
    client = valkey.connect_async(url)
    async with asyncio.timeout(20):
        while not page.heard.is_set():
            await client.publish(keys.announced(notify.CHANGES), CHANGE)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await page.heard.wait()
    await client.aclose()


async def test_a_connection_that_is_closed_is_opened_again(listening: Hub, valkey_server: str) -> None:
    page = Page()
    listening.join(page)
    await hears(page, valkey_server)
    client = valkey.connect(valkey_server)
    for _ in range(3):
        client.client_kill_filter(_type="pubsub")
        await hears(page, valkey_server)
    client.close()


async def test_a_connection_whose_other_end_has_vanished_is_given_up(
    listening: Hub, valkey_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = Relay(valkey_server)
    await relay.start()
    monkeypatch.setenv("REDIS_URL", relay.url)
    monkeypatch.setattr(hub, "SILENT_S", 0.5)
    page = Page()
    listening.join(page)
    await hears(page, valkey_server)
    await relay.lose_all()
    await hears(page, valkey_server)
    await listening.close()
    await relay.stop()


@pytest.mark.parametrize("message", [b"\xff\x00", b"[]", b"{}", b"1", b'{"object_kind": "node"}'])
async def test_an_announcement_that_cannot_be_read_ends_nothing(
    listening: Hub, valkey_server: str, message: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    page = Page()
    listening.join(page)
    await hears(page, valkey_server)
    client = valkey.connect(valkey_server)
    client.publish(keys.announced(notify.CHANGES), message)
    client.close()
    await hears(page, valkey_server)
    assert "can't be read" in caplog.text


async def test_an_error_that_nobody_expected_ends_nothing(
    listening: Hub, valkey_server: str, caplog: pytest.LogCaptureFixture
) -> None:
    page = Page(is_broken=True)
    listening.join(page)
    await hears(page, valkey_server)
    assert "a page that can't" in caplog.text


async def test_pages_that_come_and_go_at_any_moment_leave_the_next_one_listening(
    listening: Hub, valkey_server: str
) -> None:
    for moment in range(20):
        page = Page()
        listening.join(page)
        await asyncio.sleep(0.0004 * moment)
        await listening.leave(page)
    page = Page()
    listening.join(page)
    await hears(page, valkey_server)
