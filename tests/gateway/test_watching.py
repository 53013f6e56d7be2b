"""Another gateway process as this one sees it, by what comes over the connection to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from controlplane.gateway.watching import Known
from controlplane.lib.gateway_members import Member
from tests.gateway.conftest import until


@asynccontextmanager
async def other_process(folder: Path, *answers: bytes) -> AsyncIterator[Path]:
    """A socket at which each question gets the next answer, and the last one again and again."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(left.pop(0) if len(left) > 1 else left[0])
        except asyncio.IncompleteReadError:
            writer.close()

    path = folder / "other.sock"
    server = await asyncio.start_unix_server(serve, str(path))
    try:
        yield path
    finally:
        server.close()


def make_answer(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status.encode(), len(body), body)


def make_known(path: Path) -> Known:
    return Known(Member("other", path=str(path)), str(path), 0.0, lambda: None)


async def until_up(known: Known) -> None:
    await until(lambda: known.is_up)


async def end(known: Known) -> None:
    known.is_up = False
    known.forget()
    await asyncio.sleep(0)


async def test_what_a_process_says_last_counts_also_when_it_comes_by_another_way_later(tmp_path: Path) -> None:
    newer = Member("other", held={"r0": (2, 30)}, said=7)
    async with other_process(tmp_path, make_answer(msgspec.json.encode(newer))) as path:
        known = make_known(path)
        known.connect()
        await until_up(known)
        known.told(Member("other", said=6))
        assert known.member.held == {"r0": (2, 30)}
        await end(known)


async def test_a_process_of_another_version_lives_although_its_words_are_not_known(tmp_path: Path) -> None:
    for answer in (make_answer(b'{"id": 5}'), make_answer(b"no such page", "404 Not Found")):
        (tmp_path / "other.sock").unlink(missing_ok=True)
        async with other_process(tmp_path, answer) as path:
            known = make_known(path)
            known.connect()
            await until_up(known)
            assert known.member == Member("other", path=str(path))
            await end(known)


async def test_one_that_takes_the_connection_and_answers_nothing_does_not_count_and_one_that_ends_is_gone(
    tmp_path: Path,
) -> None:
    async with other_process(tmp_path, b"", make_answer(b"{}")) as path:
        known = make_known(path)
        task = known.connect()
        assert task is not None
        await task
        assert not known.is_up
        known.down()
        known.connect()
        await until_up(known)
        await end(known)
    path.unlink(missing_ok=True)
    known.connect()
    await until(lambda: known.connecting is None)
    assert not known.is_up
