"""Samples and roll-ups in Valkey: producers write parts, readers merge them.

Guarantees
    One call of `write` is one pipeline. A subject that nobody writes disappears by itself. A part that is older than
    `PART_STALE_AFTER_S` counts for nothing. Percentiles come from merged bucket counts.
Does not do
    Retry: a write to a dead server raises one of `valkey.ERRORS`, and the producer decides what to keep.
Concurrency
    Any number of producers, each with its own `source`, and any number of readers. The clocks of the machines have to
    agree within a second or two (NTP).

Layout (names in `keys`): `newest:<subject>` hash source -> part; `ring:<subject>` stream of parts, 15 minutes;
`rollup10:<subject>` stream of roll-ups, a day; `subjects` sorted set subject -> time of the last part. Parts and
roll-ups are MessagePack: the bucket counts take 3 bytes a bucket, and the same bytes go into the hash and the ring.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import redis
import redis.asyncio
from redis.asyncio.client import Pipeline

from controlplane.domain.rollups import Rollup
from controlplane.domain.samples import (
    HISTOGRAMS,
    PART_STALE_AFTER_S,
    PERCENTILES,
    SAMPLE_FIELDS,
    Counts,
    SamplePart,
    fresh,
    merge_parts,
)
from controlplane.lib import histograms, keys

RING_S = 900
ROLLUPS_S = 24 * 3600
NEWEST_KEPT_S = 60
RING_KEPT_S = RING_S + 300
ROLLUPS_KEPT_S = ROLLUPS_S + 3600
ROLLUPS_LATE_S = 3600
RING_MAX_ENTRIES = 100_000  # safety only: time bounds the ring
ROLLUPS_MAX_ENTRIES = 200_000

# {"t": whole seconds, field: value or None, …, "problems": [text, …]}
Sample = dict[str, Any]

_PART = msgspec.msgpack.Decoder(SamplePart)
_ROLLUP = msgspec.msgpack.Decoder(Rollup)
_ENCODER = msgspec.msgpack.Encoder()
T = TypeVar("T")
_SHARES = [share for _, share in PERCENTILES]
_NAMES = {name: [f"{name}_{suffix}" for suffix, _ in PERCENTILES] for name in HISTOGRAMS}


async def write(client: redis.asyncio.Redis, parts: Sequence[SamplePart], now: float) -> None:
    """Writes one second of a producer: the newest part of each subject and its entry in the ring."""
    if parts:
        pipeline = client.pipeline(transaction=False)
        queue_parts(pipeline, parts, now)
        await pipeline.execute()


async def write_rollups(client: redis.asyncio.Redis, rollups: Sequence[Rollup]) -> None:
    """Writes finished 10-second roll-ups; one that is written again (same source and slot) counts once."""
    if rollups:
        pipeline = client.pipeline(transaction=False)
        queue_rollups(pipeline, rollups)
        await pipeline.execute()


def queue_parts(pipeline: Pipeline, parts: Sequence[SamplePart], now: float) -> None:
    """Adds the commands of `write` to a pipeline, for producers that send more in one round trip."""
    oldest = f"{int((now - RING_S) * 1000)}"
    sweep = int(now) % 60 == 0
    for part in parts:
        packed = _ENCODER.encode(part)
        newest_key, ring_key = keys.newest(part.subject), keys.ring(part.subject)
        pipeline.hset(newest_key, part.source, packed)
        pipeline.expire(newest_key, NEWEST_KEPT_S)
        pipeline.xadd(ring_key, {"sample": packed}, minid=oldest, approximate=True)
        pipeline.expire(ring_key, RING_KEPT_S)
        if sweep:
            pipeline.xtrim(ring_key, maxlen=RING_MAX_ENTRIES, approximate=True)
    pipeline.zadd(keys.subjects(), {part.subject: part.at for part in parts})
    if sweep:
        pipeline.zremrangebyscore(keys.subjects(), "-inf", now - ROLLUPS_KEPT_S)


def queue_rollups(pipeline: Pipeline, rollups: Sequence[Rollup]) -> None:
    """Adds the commands of `write_rollups` to a pipeline."""
    for rollup in rollups:
        key = keys.rollup_10s(rollup.subject)
        oldest = f"{(rollup.start_s - ROLLUPS_S) * 1000}"
        pipeline.xadd(key, {"rollup": _ENCODER.encode(rollup)}, minid=oldest, approximate=True)
        pipeline.expire(key, ROLLUPS_KEPT_S)
        if rollup.start_s % 3600 == 0:
            pipeline.xtrim(key, maxlen=ROLLUPS_MAX_ENTRIES, approximate=True)
    pipeline.zadd(keys.subjects(), {rollup.subject: rollup.start_s for rollup in rollups}, gt=True)


def newest(client: redis.Redis, subjects: Sequence[str], now: float | None = None) -> dict[str, Sample]:
    """Returns the newest sample of each subject that has a fresh part; all others are absent."""
    pipeline = client.pipeline(transaction=False)
    for subject in subjects:
        pipeline.hvals(keys.newest(subject))
    return _newest(subjects, pipeline.execute(), time.time() if now is None else now)


def sums(client: redis.Redis, kind: str, fields: Sequence[str], now: float | None = None) -> dict[str, float | None]:
    """Returns field -> the sum over all subjects of a kind that have a fresh sample; None when none has the field.

    Asks only for those that somebody writes now, so what stands still costs nothing.
    """
    at = time.time() if now is None else now
    alive = [name for name in subjects(client, at - PART_STALE_AFTER_S) if name.startswith(f"{kind}:")]
    found = newest(client, alive, at).values() if alive else ()
    known = {field: [sample[field] for sample in found if sample.get(field) is not None] for field in fields}
    return {field: sum(values) if values else None for field, values in known.items()}


async def newest_async(
    client: redis.asyncio.Redis, subjects: Sequence[str], now: float | None = None
) -> dict[str, Sample]:
    """`newest` for an asyncio client."""
    pipeline = client.pipeline(transaction=False)
    for subject in subjects:
        pipeline.hvals(keys.newest(subject))
    return _newest(subjects, await pipeline.execute(), time.time() if now is None else now)


async def newest_parts_async(
    client: redis.asyncio.Redis, wanted: Sequence[tuple[str, str]], now: float | None = None
) -> dict[str, SamplePart]:
    """Returns subject -> the newest part of one producer of it, for (subject, source); what is not fresh is absent."""
    pipeline = client.pipeline(transaction=False)
    for subject, source in wanted:
        pipeline.hget(keys.newest(subject), source)
    at = time.time() if now is None else now
    found = {}
    for (subject, _), raw in zip(wanted, await pipeline.execute(), strict=True):
        part = None if raw is None else _decoded(_PART, raw)
        if part is not None and fresh((part,), at):
            found[subject] = part
    return found


def history(client: redis.Redis, subject: str, since_s: float, now: float | None = None) -> list[Sample]:
    """Returns a sample for each second from the first data after `since_s` (seconds since the epoch) up to now.

    A second without a fresh part is a sample whose fields are all None.
    """
    entries: Any = client.xrange(keys.ring(subject), min=_stream_time(since_s - PART_STALE_AFTER_S))
    return merge_ring(entries, since_s, time.time() if now is None else now)


async def ring_entries(client: redis.asyncio.Redis, subject: str, since_s: float) -> list[Any]:
    """Returns the raw ring entries that `merge_ring` needs for a history from `since_s` on."""
    entries: Any = await client.xrange(keys.ring(subject), min=_stream_time(since_s - PART_STALE_AFTER_S))
    return list(entries)


def rollups(client: redis.Redis, subject: str, since_s: float, until_s: float) -> list[Rollup]:
    """Returns the roll-ups of all producers whose slot starts in [since_s, until_s), the oldest first."""
    # an entry is written after its slot, at times much later (a backlog)
    entries: Any = client.xrange(
        keys.rollup_10s(subject), min=_stream_time(since_s), max=_stream_time(until_s + ROLLUPS_LATE_S)
    )
    found = []
    for _, fields in entries:
        rollup = _decoded(_ROLLUP, fields.get(b"rollup", b""))
        if rollup is not None and since_s <= rollup.start_s < until_s:
            found.append(rollup)
    return sorted(found, key=lambda rollup: rollup.start_s)


def subjects(client: redis.Redis, since_s: float) -> list[str]:
    """Returns the subjects that had a sample since `since_s`."""
    found: Any = client.zrangebyscore(keys.subjects(), since_s, "+inf")
    return [name.decode() for name in found]


async def drop_stale_sources(client: redis.asyncio.Redis, now: float) -> int:
    """Removes parts of producers that are gone from the hashes that others keep alive; returns how many."""
    names: Any = await client.zrangebyscore(keys.subjects(), now - NEWEST_KEPT_S, "+inf")
    pipeline = client.pipeline(transaction=False)
    for name in names:
        pipeline.hgetall(keys.newest(name.decode()))
    removed = 0
    for name, fields in zip(names, await pipeline.execute() if names else [], strict=True):
        gone = [source for source, raw in fields.items() if _is_stale(_decoded(_PART, raw), now)]
        if gone:
            removed += await client.hdel(keys.newest(name.decode()), *gone)
    return removed


def percentile_fields(merged: Mapping[str, Counts]) -> dict[str, float]:
    """Returns ttft_p50 … e2e_p99 of merged bucket counts; an empty histogram gives no field."""
    found: dict[str, float] = {}
    for name, fields in _NAMES.items():
        counts = merged.get(name)
        if counts:
            for field, value in zip(fields, histograms.percentiles_s(counts, _SHARES), strict=True):
                if value is not None:
                    found[field] = value
    return found


def sample_of(parts: Iterable[SamplePart], at: float) -> Sample:
    """Returns the parts of one subject as one sample with every field of SAMPLE_FIELDS."""
    merge = merge_parts(parts)
    sample: Sample = {"t": int(at), **_EMPTY}
    sample.update(merge.values())
    sample.update(percentile_fields(merge.histograms))
    if merge.problems:
        sample["problems"] = merge.problems
    return sample


def merge_ring(entries: Iterable[tuple[bytes, Mapping[bytes, bytes]]], since_s: float, now: float) -> list[Sample]:
    """Returns the ring's entries as one sample a second, as `newest` would have shown it at the end of that second."""
    parts = [_decoded(_PART, fields.get(b"sample", b"")) for _, fields in entries]
    ordered = sorted((part for part in parts if part is not None), key=lambda part: part.at)
    if not ordered:
        return []
    samples: list[Sample] = []
    by_source: dict[str, SamplePart] = {}
    position = 0
    first = max(int(ordered[0].at), int(since_s))
    for second in range(first, int(now) + 1):
        changed = False
        while position < len(ordered) and ordered[position].at < second + 1:
            by_source[ordered[position].source] = ordered[position]
            position += 1
            changed = True
        alive = fresh(by_source.values(), second + 1)
        if len(alive) < len(by_source):
            by_source = {part.source: part for part in alive}
            changed = True
        if changed or not samples:
            samples.append(sample_of(alive, second))
        else:
            samples.append({**samples[-1], "t": second})
    return samples


_EMPTY: dict[str, None] = dict.fromkeys(SAMPLE_FIELDS)


def _newest(subjects_asked: Sequence[str], answers: Iterable[Any], now: float) -> dict[str, Sample]:
    found: dict[str, Sample] = {}
    for subject, answer in zip(subjects_asked, answers, strict=True):
        decoded = (_decoded(_PART, raw) for raw in answer)
        alive = fresh((part for part in decoded if part is not None), now)
        if alive:
            found[subject] = sample_of(alive, max(part.at for part in alive))
    return found


def _decoded(decoder: msgspec.msgpack.Decoder[T], raw: bytes) -> T | None:
    """A part of another version or a foreign value is skipped: it must not hide the good ones."""
    try:
        return decoder.decode(raw)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None


def _is_stale(part: SamplePart | None, now: float) -> bool:
    return part is None or now - part.at > NEWEST_KEPT_S


def _stream_time(at_s: float) -> str:
    return str(max(0, int(at_s * 1000)))
