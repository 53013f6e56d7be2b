"""The rounds of `benchmarks.gateway` as medians, ratios and a table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from benchmarks.proxies import REFERENCE, Target

FIGURE = {"plain": "cpu_us_per_req", "stream": "cpu_us_per_event", "first byte": "first_p99_ms"}
COMPARED_WITH = {"plain": REFERENCE, "stream": REFERENCE, "first byte": "nginx"}
UNIT = {
    "plain": "CPU of a plain request, 32 at a time (µs)",
    "stream": "CPU of a streamed event, 400 streams of 50 tok/s (µs; litellm: 8 streams)",
    "first byte": "first byte p99, 400 streams, an engine with jittered ticks (ms)",
}

Summary = Mapping[str, Mapping[str, Mapping[str, float | None]]]


def summary(chosen: list[Target]) -> Summary:
    """Returns mode -> target -> median figures and the median ratio to the reference within a round."""
    result: dict[str, dict[str, dict[str, float | None]]] = {}
    by_name = {target.name: target for target in chosen}
    for mode, figure in FIGURE.items():
        rows = result.setdefault(mode, {})
        reference = by_name.get(COMPARED_WITH[mode])
        theirs = reference.rounds.get(mode) if reference is not None else None
        for target in chosen:
            rounds = target.rounds.get(mode)
            if not rounds:
                continue
            ratio = None
            if theirs:
                pairs = zip(rounds, theirs, strict=True)
                ratio = round(statistics.median(mine[figure] / other[figure] for mine, other in pairs), 3)
            rows[target.name] = {
                "median": statistics.median(one[figure] for one in rounds),
                "ratio": ratio,
                "p99_ms": statistics.median(one["p99_ms"] for one in rounds),
                "first_p99_ms": statistics.median(one["first_p99_ms"] for one in rounds),
                "per_s": statistics.median(one["rps" if mode == "plain" else "events_s"] for one in rounds),
                "bad": sum(sum(one["bad"].values()) for one in rounds),
            }
    return result


def table(result: Summary) -> str:
    """Returns what `make bench` prints."""
    lines = []
    for mode, rows in result.items():
        lines.append(f"\n{UNIT[mode]}; ratio to {COMPARED_WITH[mode]}")
        lines.append(f"  {'':14}{'median':>10}{'ratio':>9}{'per s':>10}{'p99 ms':>10}{'first p99':>11}{'failed':>8}")
        for name, row in rows.items():
            ratio = row["ratio"]
            shown = "-" if ratio is None else f"{ratio:.2f}"
            figures = f"{row['per_s']:>10.0f}{row['p99_ms']:>10.1f}{row['first_p99_ms']:>11.1f}{row['bad']:>8.0f}"
            lines.append(f"  {name:14}{row['median']:>10.1f}{shown:>9}{figures}")
    return "\n".join(lines)
