"""The gateway's own figures as Prometheus text."""

from __future__ import annotations

import math
from collections.abc import Iterable

from controlplane.gateway.metering import Meter, Tally
from controlplane.gateway.outbox import Outbox
from controlplane.gateway.sampling import Sampler
from controlplane.gateway.snapshot import Snapshots
from controlplane.lib import histograms

# Every 10th bound of the internal histograms, 1.63 times apart: exact sums, and few enough series for Prometheus.
EXPORTED_EVERY = 10
EXPORTED = range(0, histograms.LAST_BUCKET, EXPORTED_EVERY)

HISTOGRAM_HELP = {
    "ttft": ("headworks_gateway_ttft_seconds", "From a request's arrival to the first event of its stream."),
    "tpot": ("headworks_gateway_tpot_seconds", "Time for each output token after the first, of whole streams."),
    "e2e": ("headworks_gateway_e2e_seconds", "From a request's arrival to the last byte of a whole answer."),
}


def exposition(meter: Meter, sampler: Sampler, snapshots: Snapshots, outbox: Outbox, now: float) -> bytes:
    """Returns the text of `/metrics`."""
    lines = [*_requests(meter, sampler), *_latencies(sampler), *_snapshot(snapshots, now), *_outbox(outbox)]
    return ("\n".join(lines) + "\n").encode()


def _requests(meter: Meter, sampler: Sampler) -> Iterable[str]:
    yield from _family("headworks_gateway_requests_total", "counter", "Answers by status; 499: the client left.")
    for (deployment, status), count in sorted(meter.answers.items()):
        yield f'headworks_gateway_requests_total{{{_labels(deployment)},status="{status}"}} {count}'
    yield from _family("headworks_gateway_tokens_total", "counter", "Tokens by direction.")
    for deployment, tally in sorted(sampler.lifetime.items()):
        for direction, count in (("prompt", tally.prompt_tokens), ("output", tally.output_tokens)):
            yield f'headworks_gateway_tokens_total{{{_labels(deployment)},direction="{direction}"}} {count}'
    yield from _family("headworks_gateway_in_flight", "gauge", "Requests a replica works on for this gateway.")
    for deployment, replica_id in sorted(meter.series):
        if replica_id:
            running = meter.in_flight.get(replica_id, 0)
            yield f'headworks_gateway_in_flight{{{_labels(deployment)},replica="{_escaped(replica_id)}"}} {running}'


def _latencies(sampler: Sampler) -> Iterable[str]:
    for name, (family, text) in HISTOGRAM_HELP.items():
        yield from _family(family, "histogram", text)
        for deployment, tally in sorted(sampler.lifetime.items()):
            yield from _histogram(family, _labels(deployment), tally, name)


def _histogram(family: str, labels: str, tally: Tally, name: str) -> Iterable[str]:
    counts = getattr(tally, name)
    total = sum(counts.values())
    if not total:
        return
    seen, passed = 0, 0
    for bucket in EXPORTED:
        seen += sum(counts.get(one, 0) for one in range(passed, bucket + 1))
        passed = bucket + 1
        yield f'{family}_bucket{{{labels},le="{histograms.upper_bound_s(bucket):.6g}"}} {seen}'
    yield f'{family}_bucket{{{labels},le="+Inf"}} {total}'
    yield f"{family}_sum{{{labels}}} {tally.seconds[name]:.6f}"
    yield f"{family}_count{{{labels}}} {total}"


def _snapshot(snapshots: Snapshots, now: float) -> Iterable[str]:
    routes = snapshots.routes
    version = math.nan if routes is None else routes.snapshot.version
    age = math.nan if routes is None else now - routes.snapshot.published_at
    yield from _gauge("headworks_gateway_snapshot_version", "Version of the routing snapshot in use.", version)
    yield from _gauge("headworks_gateway_snapshot_age_seconds", "Time since it was published.", age)
    yield from _family("headworks_gateway_snapshot_source", "gauge", "Where the snapshot in use came from.")
    for source in ("none", "disk", "valkey"):
        yield f'headworks_gateway_snapshot_source{{source="{source}"}} {int(snapshots.source == source)}'
    yield from _family("headworks_gateway_snapshots_refused_total", "counter", "Snapshots that were not taken.")
    yield f"headworks_gateway_snapshots_refused_total {snapshots.refused_count}"
    yield from _gauge("headworks_gateway_valkey_up", "Whether Valkey answered last time.", int(snapshots.valkey_up))


def _outbox(outbox: Outbox) -> Iterable[str]:
    text = "Rows of usage that Valkey has not taken yet."
    yield from _gauge("headworks_gateway_usage_backlog_rows", text, outbox.usage_backlog)
    yield from _family("headworks_gateway_usage_rows_lost_total", "counter", "Rows of usage lost for good.")
    yield f"headworks_gateway_usage_rows_lost_total {outbox.rows_lost}"
    yield from _family("headworks_gateway_samples_dropped_total", "counter", "Live samples that were overtaken.")
    yield f"headworks_gateway_samples_dropped_total {outbox.samples_dropped}"


def _family(name: str, kind: str, text: str) -> Iterable[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _gauge(name: str, text: str, value: float) -> Iterable[str]:
    yield from _family(name, "gauge", text)
    yield f"{name} {'NaN' if value != value else f'{value:.15g}'}"  # noqa: PLR0124 - NaN is the one that differs


def _labels(deployment: str) -> str:
    name = _escaped(deployment)
    return f'deployment="{name}",model="{name}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
