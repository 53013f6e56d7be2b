"""Which charts a page has. Colours and lines are the scripts' and styles'; here are titles, units and fields."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from django.utils.translation import gettext as _

from controlplane.console import traffic_words


@dataclass(frozen=True, slots=True)
class Series:
    """One line: `field` of the sample, `colour` a name of `--series-…`, `dash` solid | dashed | dotted.

    `note` is what the label can't say.
    """

    field: str
    label: str
    colour: str
    dash: str = "solid"
    thin: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart. `form` is how values are written, `unit` stands at the axis, `top` fixes the upper end.

    `note` stands beside the title: of what the values are, where that is not everything.
    """

    key: str
    title: str
    unit: str
    form: str
    series: tuple[Series, ...]
    subject: str
    top: float | None = None
    note: str = ""

    def plain(self) -> dict[str, Any]:
        """Returns what the script needs, as plain values."""
        return asdict(self)


def deployment(name: str, *, external: bool) -> list[Chart]:
    """Returns the charts of a deployment."""
    subject = f"deployment:{name}"
    return _endpoint(subject) if external else _engine(subject, gateway=True)


def replica(replica_id: str, *, external: bool) -> list[Chart]:
    """Returns the charts of a replica."""
    subject = f"replica:{replica_id}"
    return _endpoint(subject) if external else _engine(subject, gateway=False)


def node(name: str, *, has_cards: bool) -> list[Chart]:
    """Returns the charts of a node; CPU cores tell neither power nor temperature."""
    subject = f"node:{name}"
    found = [
        Chart(
            "load", _("Utilization"), "%", "percent", (Series("gpu_utilization", _("mean"), "running"),), subject, 1.0
        ),
        Chart(
            "memory",
            _("Memory used"),
            "GiB",
            "gib",
            (Series("gpu_memory_used_bytes", _("all accelerators"), "kv"),),
            subject,
        ),
        Chart("power", _("Power"), "W", "rate", (Series("gpu_power_w", _("all accelerators"), "waiting"),), subject),
        Chart("heat", _("Temperature"), "°C", "rate", (Series("gpu_temperature_c", _("mean"), "tpot"),), subject),
    ]
    return found if has_cards else found[:2]


def admission(name: str) -> list[Chart]:
    """Returns the charts of a deployment's admission."""
    subject = f"gateway:{name}"
    tiers = (("interactive", "running", "solid"), ("standard", "waiting", "dashed"), ("batch", "ttft", "dotted"))
    refused = (
        Series("refused_room_per_s", _("queue full"), "waiting"),
        Series("refused_wait_per_s", _("wait too long"), "ttft", "dashed"),
        Series("refused_quota_per_s", _("quota"), "running", "dotted"),
        Series("refused_shed_per_s", _("shed"), "tpot"),
        Series("refused_other_per_s", _("other"), "engine", "dotted"),
    )
    queued = tuple(Series(f"queued_{tier}", traffic_words.tier(tier), colour, dash) for tier, colour, dash in tiers)
    saturation = (Series("saturation", _("now"), "tpot"),)
    return [
        Chart("admitted", _("Admitted, last 10 s"), _("a second"), "rate", _admitted(), subject),
        Chart("refused", _("Refused by reason, last 10 s"), _("a second"), "rate", refused, subject),
        Chart("queued", _("Waiting by tier"), _("requests"), "count", queued, subject),
        Chart("saturation", _("Saturation"), "%", "percent", saturation, subject),
    ]


def _admitted() -> tuple[Series, ...]:
    return (Series("admitted_per_s", _("now"), "tokens"),)


def _percentiles(name: str, colour: str) -> tuple[Series, ...]:
    return (
        Series(f"{name}_p50", "p50", colour),
        Series(f"{name}_p95", "p95", colour, "dashed"),
        Series(f"{name}_p99", "p99", colour, "dotted"),
    )


def _engine_says(field: str) -> tuple[Series, ...]:
    """The engine's own histogram beside the gateway's: it leaves out the way to it, and its buckets are coarse."""
    note = _("As the engine itself counts it, in coarse buckets")
    return (
        Series(f"{field}_p50", _("engine p50"), "engine", "dotted", thin=True, note=note),
        Series(f"{field}_p95", _("engine p95"), "engine", "dashed", thin=True, note=note),
    )


def _engine(subject: str, *, gateway: bool) -> list[Chart]:
    running = (Series("running", _("running"), "running"), Series("waiting", _("waiting"), "waiting", "dashed"))
    ttft, tpot = _percentiles("ttft", "ttft"), _percentiles("tpot", "tpot")
    if not gateway:  # several engines' percentiles have no meaningful sum
        ttft, tpot = (*ttft, *_engine_says("engine_ttft")), (*tpot, *_engine_says("engine_itl"))
    batch = Chart("batch", _("Requests in the engine"), _("requests"), "count", running, subject)
    kv = Chart("kv", _("KV cache in use"), "%", "percent", (Series("kv_usage", _("now"), "kv"),), subject, 1.0)
    found = [_tokens(subject), batch, *_latencies(subject, ttft, tpot), kv]
    return [*found, _gateway(subject)] if gateway else found


def _endpoint(subject: str) -> list[Chart]:
    """Of an external endpoint is known what went through the gateway, and nothing of what is inside."""
    latencies = _latencies(subject, _percentiles("ttft", "ttft"), _percentiles("tpot", "tpot"))
    return [_tokens(subject), _gateway(subject), *latencies]


def _tokens(subject: str) -> Chart:
    """A stream's tokens come one by one; what a plain answer has is known when it ends, all of it in that second."""
    lines = (Series("tokens_per_s", _("now"), "tokens"),)
    return Chart("tokens", _("Output tokens"), "tok/s", "rate", lines, subject, note=_("plain answers as they end"))


def _latencies(subject: str, ttft: tuple[Series, ...], tpot: tuple[Series, ...]) -> list[Chart]:
    streams = _("of streams")  # a plain answer has neither: it comes whole
    return [
        Chart("ttft", _("Time to first token, last 60 s"), "s", "latency", ttft, subject, note=streams),
        Chart("tpot", _("Time per output token, last 60 s"), "s", "latency", tpot, subject, note=streams),
    ]


def _gateway(subject: str) -> Chart:
    queue = (
        Series("gateway_queue", _("queued"), "waiting", "dashed"),
        Series("gateway_in_flight", _("in flight"), "running"),
    )
    return Chart("gateway", _("Requests in the gateway"), _("requests"), "count", queue, subject)
