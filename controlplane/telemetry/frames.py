"""What goes over the telemetry socket, both ways: shapes, limits, and JSON of samples."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from controlplane.domain.samples import SAMPLE_FIELDS, is_subject
from controlplane.lib.sample_store import RING_S, Sample

MOST_SUBJECTS = 100  # of one socket
MOST_NAMED = 2 * MOST_SUBJECTS  # in one frame
LONGEST_SUBJECT = 200
MOST_HISTORY_S = RING_S
_LOG = re.compile(r"log:([A-Za-z0-9][A-Za-z0-9._-]{0,79})")
_EMPTY: dict[str, None] = dict.fromkeys(SAMPLE_FIELDS)
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of an engine's log and its place in the stream."""

    id: bytes
    n: int
    line: str


class Request(msgspec.Struct, frozen=True):
    """What a client may send."""

    type: Literal["subscribe", "unsubscribe"]
    subjects: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=LONGEST_SUBJECT)]], msgspec.Meta(max_length=MOST_NAMED)
    ] = []
    history_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BadRequest:
    """A frame that is no request; `message` says what would be right."""

    message: str


@dataclass(slots=True)
class Split:
    """The subjects of a request: sample subjects, logs (by replica id), and what is neither."""

    samples: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)


def read_request(text: str) -> Request | BadRequest:
    """Returns a client's frame."""
    try:
        return msgspec.json.decode(text, type=Request)
    except (msgspec.DecodeError, RecursionError) as error:
        return BadRequest(
            f'Send {{"type": "subscribe" or "unsubscribe", "subjects": [text, …], "history_s": seconds}}: {error}'
        )


def split(subjects: Iterable[str]) -> Split:
    """Returns the subjects by what they are, each once."""
    found = Split()
    for subject in dict.fromkeys(subjects):
        if is_subject(subject):
            found.samples.append(subject)
        elif (match := _LOG.fullmatch(subject)) is not None:
            found.logs.append(match[1])
        else:
            found.malformed.append(subject[:120])
    return found


def plain(**members: object) -> str:
    """Returns a frame of plain members."""
    return _encoder.encode(members).decode()


def error(code: str, message: str, **members: object) -> str:
    """Returns an error frame."""
    return plain(type="error", code=code, message=message, **members)


def sample(subject: str, found: Sample | None, now: float) -> tuple[int, str]:
    """Returns (t, frame) of a subject's newest sample; without one every field is None."""
    if found is None:
        t = int(now)
        return t, plain(type="sample", subject=subject, t=t, values=_EMPTY, problems=[])
    values = {name: rounded(found.get(name)) for name in SAMPLE_FIELDS}
    t = int(found["t"])
    return t, plain(type="sample", subject=subject, t=t, values=values, problems=found.get("problems", []))


def history(subject: str, samples: Sequence[Sample]) -> str:
    """Returns the history frame; a field that no sample has a value of is left out of all of them."""
    present = [name for name in SAMPLE_FIELDS if any(one[name] is not None for one in samples)]
    rows = [{"t": one["t"], **{name: rounded(one[name]) for name in present}} for one in samples]
    return plain(type="history", subject=subject, samples=rows)


def log(replica_id: str, lines: Iterable[LogLine]) -> str:
    """Returns the frame of some log lines."""
    return plain(type="log", subject=f"log:{replica_id}", lines=[{"n": one.n, "line": one.line} for one in lines])


def event(message: Mapping[str, Any]) -> str:
    """Returns the frame of a changed object."""
    return plain(type="event", object_kind=message["object_kind"], object_id=message["object_id"], verb=message["verb"])


def rounded(value: Any) -> Any:
    """Returns a number with six significant digits (whole ones stay whole): nobody reads more, and it packs better."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    if value.is_integer() and abs(value) < 1e15:
        return int(value)
    return float(f"{value:.6g}")
