"""The gateway's own figures as Prometheus text."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from controlplane.gateway.admission_metrics import admission_lines
from controlplane.gateway.gates import Gates
from controlplane.gateway.metering import Meter, Tally
from controlplane.gateway.metrics_text import escaped, family, gauge, labels
from controlplane.gateway.outbox import Outbox
from controlplane.gateway.owners import Owners
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


def exposition(
    meter: Meter, gates: Gates, sampler: Sampler, *, snapshots: Snapshots, outbox: Outbox, owners: Owners
) -> bytes:
    """Returns the text of `/metrics`."""
    now = time.time()
    lines = [*_requests(meter, gates, sampler), *_latencies(sampler), *admission_lines(gates, owners)]
    lines += [*_snapshot(snapshots, now), *_outbox(outbox), *_owners(owners)]
    return ("\n".join(lines) + "\n").encode()


def _requests(meter: Meter, gates: Gates, sampler: Sampler) -> Iterable[str]:
    yield from family("headworks_gateway_requests_total", "counter", "Answers by status; 499: the client left.")
    for (deployment, status), count in sorted(meter.answers.items()):
        yield f'headworks_gateway_requests_total{{{labels(deployment)},status="{status}"}} {count}'
    text = "Requests that another replica was asked for because this one failed or had too much to do."
    yield from family("headworks_gateway_sent_elsewhere_total", "counter", text)
    for (deployment, replica_id, why), count in sorted(meter.sent_elsewhere.items()):
        own = f'{labels(deployment)},replica="{escaped(replica_id)}",reason="{why}"'
        yield f"headworks_gateway_sent_elsewhere_total{{{own}}} {count}"
    yield from family("headworks_gateway_tokens_total", "counter", "Tokens by direction.")
    for deployment, tally in sorted(sampler.lifetime.items()):
        for direction, count in (("prompt", tally.prompt_tokens), ("output", tally.output_tokens)):
            yield f'headworks_gateway_tokens_total{{{labels(deployment)},direction="{direction}"}} {count}'
    yield from family("headworks_gateway_in_flight", "gauge", "Seats of a replica that requests take.")
    in_flight = gates.in_flight()
    for deployment, replica_id in sorted(meter.series):
        if replica_id:
            running = in_flight.get(replica_id, 0)
            yield f'headworks_gateway_in_flight{{{labels(deployment)},replica="{escaped(replica_id)}"}} {running}'


def _latencies(sampler: Sampler) -> Iterable[str]:
    for name, (metric, text) in HISTOGRAM_HELP.items():
        yield from family(metric, "histogram", text)
        for deployment, tally in sorted(sampler.lifetime.items()):
            yield from _histogram(metric, labels(deployment), tally, name)


def _histogram(metric: str, own: str, tally: Tally, name: str) -> Iterable[str]:
    counts = getattr(tally, name)
    total = sum(counts.values())
    if not total:
        return
    seen, passed = 0, 0
    for bucket in EXPORTED:
        seen += sum(counts.get(one, 0) for one in range(passed, bucket + 1))
        passed = bucket + 1
        yield f'{metric}_bucket{{{own},le="{histograms.upper_bound_s(bucket):.6g}"}} {seen}'
    yield f'{metric}_bucket{{{own},le="+Inf"}} {total}'
    yield f"{metric}_sum{{{own}}} {tally.seconds[name]:.6f}"
    yield f"{metric}_count{{{own}}} {total}"


def _snapshot(snapshots: Snapshots, now: float) -> Iterable[str]:
    routes = snapshots.routes
    version = math.nan if routes is None else routes.snapshot.version
    age = math.nan if routes is None else now - routes.snapshot.published_at
    yield from gauge("headworks_gateway_snapshot_version", "Version of the routing snapshot in use.", version)
    yield from gauge("headworks_gateway_snapshot_age_seconds", "Time since it was published.", age)
    yield from family("headworks_gateway_snapshot_source", "gauge", "Where the snapshot in use came from.")
    for source in ("none", "disk", "valkey"):
        yield f'headworks_gateway_snapshot_source{{source="{source}"}} {int(snapshots.source == source)}'
    yield from family("headworks_gateway_snapshots_refused_total", "counter", "Snapshots that were not taken.")
    yield f"headworks_gateway_snapshots_refused_total {snapshots.refused_count}"
    yield from gauge("headworks_gateway_valkey_up", "Whether Valkey answered last time.", int(snapshots.valkey_up))


def _outbox(outbox: Outbox) -> Iterable[str]:
    text = "Rows of usage that Valkey has not taken yet."
    yield from gauge("headworks_gateway_usage_backlog_rows", text, outbox.usage_backlog)
    yield from family("headworks_gateway_usage_rows_lost_total", "counter", "Rows of usage lost for good.")
    yield f"headworks_gateway_usage_rows_lost_total {outbox.rows_lost}"
    yield from family("headworks_gateway_samples_dropped_total", "counter", "Live samples that were overtaken.")
    yield f"headworks_gateway_samples_dropped_total {outbox.samples_dropped}"


def _owners(owners: Owners) -> Iterable[str]:
    yield from gauge("headworks_gateway_processes", "Gateway processes behind this port that answer.", 1)
    if owners.members is None:
        return
    yield from gauge("headworks_gateway_members", "Gateway processes that own deployments.", len(owners.members.ids))
    text = "Times that a process gave up another one because it hung."
    yield from family("headworks_gateway_hung_total", "counter", text)
    yield f"headworks_gateway_hung_total {owners.members.hung_count}"
    yield from family("headworks_gateway_passed_on_total", "counter", "Requests that another process decided about.")
    for deployment, count in sorted(owners.passed_on.items()):
        yield f"headworks_gateway_passed_on_total{{{labels(deployment)}}} {count}"
