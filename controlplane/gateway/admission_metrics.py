"""Admission's figures as Prometheus text: who waits, who was let in or refused and why, what is held where."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.gateway.gates import Gates
from controlplane.gateway.metrics_text import escaped, family, labels


def admission_lines(gates: Gates) -> Iterable[str]:
    """Yields the lines of `/metrics` that admission has to say."""
    yield from _by_tier(gates)
    yield from _refused(gates)
    yield from _by_replica(gates)
    yield from _estimates(gates)


def _by_tier(gates: Gates) -> Iterable[str]:
    yield from family("headworks_gateway_queue", "gauge", "Requests that wait for a seat.")
    for name, gate in sorted(gates.by_name.items()):
        for tier, queue in gate.admission.queue.tiers.items():
            yield f'headworks_gateway_queue{{{labels(name)},tier="{tier}"}} {queue.count}'
    yield from family("headworks_gateway_admitted_total", "counter", "Requests that got a seat.")
    for name, gate in sorted(gates.by_name.items()):
        for tier, count in gate.admission.admitted.items():
            yield f'headworks_gateway_admitted_total{{{labels(name)},tier="{tier}"}} {count}'


def _refused(gates: Gates) -> Iterable[str]:
    yield from family("headworks_gateway_refused_total", "counter", "Requests that got no seat, by reason.")
    for name, gate in sorted(gates.by_name.items()):
        for (tier, code), count in sorted(gate.refused.items()):
            yield f'headworks_gateway_refused_total{{{labels(name)},tier="{tier}",reason="{code}"}} {count}'


def _by_replica(gates: Gates) -> Iterable[str]:
    places = [(name, place) for name, gate in sorted(gates.by_name.items()) for place in gate.admission.places.values()]
    yield from family("headworks_gateway_seats", "gauge", "Requests that may run in a replica at once.")
    for name, place in places:
        yield f'headworks_gateway_seats{{{labels(name)},replica="{escaped(place.id)}"}} {place.seats}'
    yield from family("headworks_gateway_seat_changes_total", "counter", "Times that seats were given or taken.")
    for name, gate in sorted(gates.by_name.items()):
        yield f"headworks_gateway_seat_changes_total{{{labels(name)}}} {gate.seat_changes}"
    yield from family("headworks_gateway_kv_tokens_reserved", "gauge", "KV tokens held by what runs in a replica.")
    for name, place in places:
        tokens = place.ledger.reserved_tokens
        yield f'headworks_gateway_kv_tokens_reserved{{{labels(name)},replica="{escaped(place.id)}"}} {tokens}'


def _estimates(gates: Gates) -> Iterable[str]:
    text = "Estimated against counted prompt tokens: the sum of |estimated - counted| / counted."
    yield from family("headworks_gateway_prompt_estimate_error", "summary", text)
    for name, gate in sorted(gates.by_name.items()):
        total = sum(prompts.error_sum for prompts in gate.prompts.values())
        count = sum(prompts.error_count for prompts in gate.prompts.values())
        yield f"headworks_gateway_prompt_estimate_error_sum{{{labels(name)}}} {total:.6g}"
        yield f"headworks_gateway_prompt_estimate_error_count{{{labels(name)}}} {count}"
    yield from family("headworks_gateway_overbooked_total", "counter", "Times a stream outgrew a replica's KV tokens.")
    for name, gate in sorted(gates.by_name.items()):
        yield f"headworks_gateway_overbooked_total{{{labels(name)}}} {gate.overbooked}"
