from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.lib import sse
from controlplane.lib.sse import EventStream
from controlplane.lib.usage import Usage

USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


def make_event(end: str = "\n", **fields: object) -> bytes:
    return f"data: {json.dumps(fields)}{end}{end}".encode()


def make_token(text: str, end: str = "\n") -> bytes:
    return make_event(end, choices=[{"index": 0, "delta": {"content": text}}])


def make_stream(end: str) -> tuple[bytes, bytes]:
    """Returns (everything the engine sends, the usage event in it)."""
    usage = make_event(end, choices=[], usage=USAGE)
    done = f"data: [DONE]{end}{end}".encode()
    return make_token("a \n\n data: x", end) + make_token('"usage" [] {}', end) + usage + done, usage


def run(pieces: list[bytes], *, strip: bool) -> tuple[bytes, EventStream]:
    stream = EventStream(strip)
    out = b"".join(stream.feed(piece) for piece in pieces)
    return out + stream.rest(), stream


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_usage_event_is_taken_out_wherever_the_stream_is_cut_in_two(end: str) -> None:
    whole, usage = make_stream(end)
    for at in range(len(whole) + 1):
        out, stream = run([whole[:at], whole[at:]], strip=True)
        assert out == whole.replace(usage, b""), f"cut at {at}"
        assert stream.usage == Usage(5, 2)
        assert stream.events == 3
        assert stream.output_tokens() == 2


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_byte_may_come_alone(end: str) -> None:
    whole, usage = make_stream(end)
    out, _ = run([bytes([byte]) for byte in whole], strip=True)
    assert out == whole.replace(usage, b"")


@given(
    st.lists(st.text(max_size=30), max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.lists(st.integers(0, 2000), max_size=12),
    st.booleans(),
)
def test_nothing_but_the_usage_event_is_ever_lost(texts: list[str], end: str, cuts: list[int], strip: bool) -> None:
    usage = make_event(end, choices=[], usage=USAGE)
    tokens = b"".join(make_token(text, end) for text in texts)
    whole = tokens + usage + b"data: [DONE]\n\n"
    places = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    pieces = [whole[start:stop] for start, stop in itertools.pairwise(places)]
    out, stream = run(pieces, strip=strip)
    assert out == (whole.replace(usage, b"") if strip else whole)
    assert stream.events == len(texts) + 1 + (not strip)
    assert stream.output_tokens() == 2


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_any_bytes_at_all_come_through(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    assert run(pieces, strip=False)[0] == whole


def test_only_whole_events_come_out_so_that_an_error_may_follow() -> None:
    stream = EventStream(True)
    assert stream.feed(make_token("a") + b'data: {"choi') == make_token("a")
    assert not stream.inside_event


def test_an_event_beyond_the_limit_is_passed_on_in_pieces_and_counted_once() -> None:
    long = make_token("x" * (3 * sse.HOLD_LIMIT_BYTES))
    whole = long + make_token("b") + b"data: [DONE]\n\n"
    for size in (1000, 4096, len(long) - 1, len(long) - 2):
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        stream, out, inside = EventStream(True), b"", False
        for piece in pieces:
            out += stream.feed(piece)
            inside = inside or stream.inside_event
        assert (out + stream.rest(), inside, stream.events) == (whole, True, 3)


def test_usage_in_every_event_is_read_from_the_last_and_nothing_is_taken_out() -> None:
    first = make_event(choices=[{"index": 0}], usage={"prompt_tokens": 5, "completion_tokens": 1})
    last = make_event(choices=[{"index": 0}], usage=USAGE)
    out, stream = run([first, last], strip=True)
    assert out == first + last
    assert stream.usage == Usage(5, 2)


def test_without_usage_the_events_are_counted() -> None:
    _, stream = run([make_token("a"), make_token("b"), b"data: [DONE]\n\n"], strip=True)
    assert stream.output_tokens() == 2


def test_comments_and_other_fields_are_not_tokens() -> None:
    out, stream = run([b": ping\n\n", b"event: x\nid: 1\ndata: {}\n\n"], strip=True)
    assert out == b": ping\n\nevent: x\nid: 1\ndata: {}\n\n"
    assert stream.events == 1


@pytest.mark.parametrize("usage", ['"usage": 3', '"usage": {"completion_tokens": "x"}', '"usage": ' + "[" * 5000])
def test_a_usage_that_can_not_be_read_is_passed_on(usage: str) -> None:
    odd = f'data: {{"choices": [], {usage}}}\n\n'.encode()
    out, stream = run([odd], strip=True)
    assert out == odd
    assert stream.usage is None
