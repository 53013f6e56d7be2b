from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from workers.node import collector_http
from workers.node.collector_http import MetricsClient, ScrapeError

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
BODY = b"vllm:num_requests_running 1\n"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


@asynccontextmanager
async def engine(answer: Answer) -> AsyncIterator[tuple[str, list[str]]]:
    """An HTTP server; gives its URL and a list that grows by a line a connection."""
    connections: list[str] = []
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append("connection")
        writers.append(writer)
        while await reader.readuntil(b"\r\n\r\n"):
            await answer(reader, writer)

    async def quietly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(quietly, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", connections
    finally:
        server.close()
        for writer in writers:
            writer.close()


def says(data: bytes) -> Answer:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return answer


async def test_the_connection_is_kept() -> None:
    async with engine(says(PLAIN)) as (url, connections):
        client = MetricsClient(url)
        assert [await client.get() for _ in range(3)] == [BODY] * 3
        assert len(connections) == 1
        client.close()


async def test_chunked_answers_are_read() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
    async with engine(says(chunked)) as (url, connections):
        client = MetricsClient(url)
        assert [await client.get(), await client.get()] == [b"hello!"] * 2
        assert len(connections) == 1
        client.close()


async def test_an_engine_that_closes_is_connected_to_anew() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(PLAIN.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))
        writer.close()

    async with engine(answer) as (url, connections):
        client = MetricsClient(url)
        assert [await client.get(), await client.get()] == [BODY] * 2
        assert len(connections) == 2
        client.close()


async def test_a_stuck_engine_is_given_up_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector_http, "TIMEOUT_S", 0.1)
    answers = iter([b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\nhalf", PLAIN])

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(next(answers))

    async with engine(answer) as (url, _connections):
        client = MetricsClient(url)
        with pytest.raises(ScrapeError) as caught:
            await client.get()
        assert caught.value.code == "no_answer"
        assert await client.get() == BODY
        client.close()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "bad_answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n" + b"x" * 200, "bad_answer"),
    ],
)
async def test_what_is_no_answer_is_an_error(answer: bytes, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector_http, "MAX_BODY_BYTES", 100)
    async with engine(says(answer)) as (url, _):
        client = MetricsClient(url)
        with pytest.raises(ScrapeError) as caught:
            await client.get()
        assert caught.value.code == code
        client.close()


async def test_nobody_there_is_refused() -> None:
    client = MetricsClient("http://127.0.0.1:1")
    with pytest.raises(ScrapeError) as caught:
        await client.get()
    assert caught.value.code == "refused"
