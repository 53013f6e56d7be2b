"""`/metrics` of several processes behind one port: the same sum, whichever answers.

Guarantees
    Counters never go backwards: a process writes its figures to its file before it shows them to anybody, so what a
    killed one has shown is in its file, which goes on counting (its gauges do not).
    Counters, histograms and summaries are added up by name and labels; so are gauges, but those in `HIGHEST` and
    `LOWEST`.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.gateway.passing import get_page
from controlplane.gateway.watching import Peer
from controlplane.lib.upstream_connection import UpstreamError

logger = logging.getLogger(__name__)

ASK_LIMIT_S = 0.5
SUFFIX = ".prom"
PAST = f"past{SUFFIX}"  # of all processes that have ended and are folded together
FOLDED_FROM = 8  # files of dead processes
HIGHEST = frozenset(
    {"headworks_gateway_snapshot_version", "headworks_gateway_snapshot_age_seconds"}
    | {"headworks_gateway_snapshot_source", "headworks_gateway_seats", "headworks_gateway_members"}
    | {
        "headworks_gateway_kv_tokens_unseen",
        "headworks_gateway_saturation",
        "headworks_gateway_tier_saturation",
        "headworks_gateway_tier_degradation_level",
        "headworks_gateway_degradation_level",
        "headworks_gateway_quotas_cut_off",
    }
)
LOWEST = frozenset({"headworks_gateway_valkey_up"})


@dataclass(slots=True)
class _Family:
    help: str = ""
    kind: str = "untyped"
    samples: dict[str, list[str]] = field(default_factory=dict)  # series -> values


def summed(living: Iterable[bytes], dead: Iterable[bytes] = ()) -> bytes:
    """Returns the sum of expositions; the dead ones' gauges are left out."""
    families: dict[str, _Family] = {}
    for text in living:
        _read(text, families, with_gauges=True)
    for text in dead:
        _read(text, families, with_gauges=False)
    lines = []
    for name, family in families.items():
        lines += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}"]
        together = _how(name, family.kind)
        lines += [f"{series} {together(values)}" for series, values in family.samples.items()]
    return ("\n".join(lines) + "\n").encode()


def _read(text: bytes, families: dict[str, _Family], *, with_gauges: bool) -> None:
    family = _Family()
    wanted = True
    for line in text.decode().splitlines():
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            family = families.setdefault(name, _Family())
            family.help = words
        elif line.startswith("# TYPE "):
            family.kind = line.rpartition(" ")[2]
            wanted = with_gauges or family.kind != "gauge"
        elif wanted and line:
            series, _, value = line.rpartition(" ")
            family.samples.setdefault(series, []).append(value)


def _how(name: str, kind: str) -> Callable[[list[str]], str]:
    if kind == "gauge" and name in HIGHEST:
        return lambda values: max(values, key=_order)
    if kind == "gauge" and name in LOWEST:
        return lambda values: min(values, key=_order)
    return _sum


def _order(value: str) -> float:
    number = float(value)
    return number if number == number else float("-inf")  # noqa: PLR0124 - NaN is the one that differs


def _sum(values: list[str]) -> str:
    if len(values) == 1:
        return values[0]
    if all(value.isdigit() for value in values):
        return str(sum(map(int, values)))
    numbers = [number for value in values if (number := float(value)) == number]
    return f"{sum(numbers):.15g}" if numbers else "NaN"


class Figures:
    """The figures of this process and of those behind the same port; `render` makes our own."""

    def __init__(
        self, own_id: str, folder: Path, render: Callable[[], bytes], siblings: Callable[[], Mapping[str, Peer]]
    ) -> None:
        self._id = own_id
        self._folder = folder
        self._render = render
        self._siblings = siblings

    def own(self) -> bytes:
        """Returns our own figures, having written them down."""
        text = self._render()
        path = self._folder / f"{self._id}{SUFFIX}"
        fresh = path.with_suffix(".new")
        try:
            fresh.write_bytes(text)
            fresh.replace(path)
        except OSError as error:
            logger.error("the figures can't be kept at %s: %s", path, error.strerror)
        return text

    async def together(self) -> bytes:
        """Returns the sum over all processes that the port has had."""
        siblings = dict(self._siblings())
        answers = await asyncio.gather(*(_ask(peer) for peer in siblings.values()))
        living = [self.own()]
        told = {peer_id for peer_id, text in zip(siblings, answers, strict=True) if text is not None}
        living += [text for text in answers if text is not None]
        dead: list[bytes] = []
        with _locked(self._folder, fcntl.LOCK_SH):
            for path in self._folder.glob(f"*{SUFFIX}"):
                if path.stem == self._id or path.stem in told:
                    continue
                (living if path.stem in siblings else dead).append(path.read_bytes())
        return summed(living, dead)


async def _ask(peer: Peer) -> bytes | None:
    try:
        return await get_page(peer.pool, "/metrics", ASK_LIMIT_S)
    except (UpstreamError, TimeoutError):
        return None


def fold(folder: Path, living: Collection[str]) -> None:
    """Adds up the files of processes that have ended when they have become many."""
    dead = [path for path in folder.glob(f"*{SUFFIX}") if path.stem not in living]
    if len(dead) < FOLDED_FROM:
        return
    with _locked(folder, fcntl.LOCK_EX):
        text = summed((), [path.read_bytes() for path in dead])
        fresh = folder / "past.new"
        fresh.write_bytes(text)
        fresh.replace(folder / PAST)
        for path in dead:
            if path.name != PAST:
                path.unlink()


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    """Nobody reads files while they are folded, nor folds while they are read."""
    descriptor = os.open(folder / "figures.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)
