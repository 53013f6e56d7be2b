"""Requests whose head is known are read without llhttp: what comes out must be the same, whatever came before."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.gateway.client import Client
from controlplane.gateway.connection import Connection, State
from controlplane.gateway.heads import KNOWN_LONGEST_BYTES, KNOWN_MOST, KNOWN_MOST_FIELDS, Head, split
from controlplane.gateway.reading import HEAD_LIMIT_BYTES

Seen = tuple[str, str, tuple[tuple[bytes, bytes], ...], bytes | None, str, int, bool]


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.sent = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Loop:
    def time(self) -> float:
        return 0.0

    def create_future(self) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()


class Visit:
    """A connection and what it was asked; each request is answered at once when its body is whole."""

    def __init__(self, state: State) -> None:
        self.seen: list[Seen] = []
        self.heads: list[Head] = []  # equal where they are the same
        self.state = state
        self.wire = Wire()
        self.connection = Connection(state, self.serve, Loop())  # type: ignore[arg-type]
        self.connection.connection_made(self.wire)  # type: ignore[arg-type]

    def serve(self, client: Client) -> None:
        body, head = client.whole_body(), client.head
        self.seen.append(
            (head.method, head.path, tuple(head.headers), body, head.request_id, head.hops, client.keep_alive)
        )
        self.heads.append(head)
        client.start(200, [], 2)
        client.end(b"ok")

    def send(self, *pieces: bytes, forgetful: bool = False) -> list[Seen]:
        for piece in pieces:
            if forgetful:
                self.state.heads.clear()
            if not self.wire.closed:
                self.connection.data_received(piece)
        return self.seen


def ask(body: bytes = b"{}", **headers: str) -> bytes:
    fields = {"host": "x", "authorization": "Bearer k", "Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"POST /v1/chat/completions HTTP/1.1\r\n{lines}\r\n".encode() + body


def test_a_known_head_means_what_it_meant_with_each_body() -> None:
    state = State()
    bodies = [b"{}", b'{"model": "chat"}', b"", b"x" * 1000]
    first = [seen for body in bodies for seen in Visit(State()).send(ask(body, x_request_id="me"))]
    visit = Visit(state)
    assert visit.send(*[ask(body, x_request_id="me") for body in bodies]) == first
    assert [seen[3] for seen in first] == bodies
    assert Visit(state).send(*[ask(body, x_request_id="me") for body in bodies]) == first
    assert visit.wire.sent.count(b"HTTP/1.1 200") == len(bodies)


def test_a_head_is_read_once_and_then_known() -> None:
    visit = Visit(State())
    visit.send(ask(b"{}"), ask(b"{ }"), ask(b"{  }"), ask(b"{}", x_request_id="another"))
    first, *known, other = visit.heads
    assert known == [first, first]
    assert other != first


FRAMINGS = [
    "Content-Length: {}",
    "content-length: {}",
    "content-length:{}",
    "Content-Length:  {}",
    "CONTENT-LENGTH: {}",
]
EXTRA = [
    "", "x-request-id: a.b", "x-request-id: not/sane", "connection: close", "connection: keep-alive",
    "connection: Upgrade\r\nupgrade: h2c", "expect: 100-continue", "x-headworks-hops: 2", "content-length: 2",
    "transfer-encoding: chunked", "x: a\0b", "x : y", " folded: z", "transfer-encoding: gzip", "x-forwarded-for: 10.9",
]  # fmt: skip
TARGETS = ["/v1/chat/completions", "/v1/chat/completions?x=1", "/v1/%63hat", "http://other/v1", "other:80", "*"]
VERSIONS = ["HTTP/1.1", "HTTP/1.0", "HTTP/2.0"]


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    body = draw(st.sampled_from([b"", b"{}", b'{"a": 1}', b"GET / HTTP/1.1\r\n\r\n"]))
    stated = draw(st.sampled_from([len(body)] * 6 + [len(body) + 1, max(0, len(body) - 1)]))
    length = draw(st.sampled_from(FRAMINGS)).format(
        draw(st.sampled_from([str(stated)] * 4 + [f"0{stated}", f"+{stated}"]))
    )
    extra = draw(st.lists(st.sampled_from(EXTRA), max_size=2))
    place = draw(st.integers(0, len(extra)))
    lines = [one for one in (*extra[:place], length, *extra[place:]) if one]
    method = draw(st.sampled_from(["POST"] * 5 + ["GET", "CONNECT", "NONSENSE"]))
    first = f"{method} {draw(st.sampled_from(TARGETS))} {draw(st.sampled_from(VERSIONS))}"
    return "\r\n".join([first, "host: x", *lines, "", ""]).encode() + body


@given(st.lists(requests(), min_size=1, max_size=6), st.lists(requests(), max_size=4))
def test_whatever_is_known_already_a_connection_is_answered_as_if_nothing_were(
    asked: list[bytes], before: list[bytes]
) -> None:
    taught = State()
    for one in [*before, *asked]:  # each on a connection of its own, so that all of them are heard
        Visit(taught).send(one)
    with_it, without = Visit(taught), Visit(State())
    assert with_it.send(*asked) == without.send(*asked, forgetful=True)
    assert (with_it.wire.sent, with_it.wire.closed) == (without.wire.sent, without.wire.closed)


@given(st.lists(requests(), min_size=1, max_size=3), st.data())
def test_how_a_request_was_cut_into_pieces_does_not_matter(asked: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(asked)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=4)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True) if a != b]
    state = State()
    whole, cut = Patient(state), Patient(state)
    assert whole.bodies(raw) == cut.bodies(*pieces)


class Patient(Visit):
    """Answers nothing before the end; then tells what came whole, up to the first fault."""

    def serve(self, client: Client) -> None:
        self.client = client

    def bodies(self, *pieces: bytes) -> list[tuple[str, bytes | None]]:
        self.send(*pieces)
        connection = self.connection
        if self.wire.closed:
            return []
        clients = [one for one in (connection._current, *connection._waiting) if one is not None]
        return [(one.head.path, one.whole_body()) for one in clients]


def test_the_heads_that_are_known_are_bounded() -> None:
    state = State()
    visit = Visit(state)
    for number in range(KNOWN_MOST + 10):
        visit.send(ask(x_request_id=f"r{number}"))
    assert 0 < len(state.heads) <= KNOWN_MOST
    assert split(ask(x="y" * KNOWN_LONGEST_BYTES)) is None


def test_a_head_of_very_many_fields_is_read_each_time() -> None:
    state = State()
    raw = ask().replace(b"host: x\r\n", b"a: b\r\n" * KNOWN_MOST_FIELDS)
    assert len(Visit(state).send(raw)) == 1
    assert len(state.heads) == 0


def test_a_head_that_begins_behind_a_long_body_is_not_long() -> None:
    long, short = ask(b"x" * 3 * HEAD_LIMIT_BYTES), ask()
    raw = long + short
    for at in (1, 40, len(short) - 1):
        visit = Visit(State())
        assert len(visit.send(raw[:100], raw[100 : len(long) + at], raw[len(long) + at :])) == 2
        assert not visit.wire.closed


@pytest.mark.parametrize("endless", [b"2\r\n{}\r\n0\r\nx: ", b"2\r\n{}\r\n0\r\n", b"2;x="])
def test_what_stands_around_a_chunked_body_has_an_end(endless: bytes) -> None:
    visit = Visit(State())
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    visit.send(head + endless)
    sent = 0
    while not visit.wire.closed and sent < 4 * HEAD_LIMIT_BYTES:
        visit.send(b"yyyyyyy" * 200 if endless[-1:] != b"\n" else b"x: y\r\n" * 200)
        sent += 1400
    assert visit.wire.closed
    assert sent < 2 * HEAD_LIMIT_BYTES


@pytest.mark.parametrize(
    "raw",
    [
        ask()[:-1],
        ask() + b"x",
        ask() + ask(),
        ask().replace(b"Content-Length: 2\r\n", b""),
        ask().replace(b"Length: 2", b"Length: -2"),
        ask().replace(b"Length: 2", b"Length: 9999999999"),
        b"",
        b"\r\n\r\n",
    ],
)
def test_what_is_not_one_whole_request_with_its_length_is_left_to_llhttp(raw: bytes) -> None:
    assert split(raw) is None


def test_a_head_that_waits_for_a_word_before_its_body_is_never_known() -> None:
    state = State()
    Visit(state).send(*[ask(expect="100-continue")] * 2)
    assert len(state.heads) == 0
