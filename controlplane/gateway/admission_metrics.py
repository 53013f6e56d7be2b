"""Admission's figures as Prometheus text: who waits, who was let in or refused and why, what is held where."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.gateway.gates import Gates
from controlplane.gateway.metrics_text import escaped, family, gauge, labels
from controlplane.gateway.owners import Owners
from controlplane.gateway.quotas import Quotas


def admission_lines(gates: Gates, owners: Owners) -> Iterable[str]:
    """Yields the lines of `/metrics` that admission has to say."""
    yield from _by_tier(gates)
    yield from _refused(gates)
    yield from _by_replica(gates, owners)
    yield from _estimates(gates)
    yield from _ladders(gates)
    yield from _quotas(gates.quotas)


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


def _by_replica(gates: Gates, owners: Owners) -> Iterable[str]:
    places = [(name, place) for name, gate in sorted(gates.by_name.items()) for place in gate.admission.places.values()]
    yield from family("headworks_gateway_seats", "gauge", "Answers that may be worked on in a replica at once.")
    for name, place in places:
        if owners.elsewhere(name) is not None:
            continue  # the owner moves them
        yield f'headworks_gateway_seats{{{labels(name)},replica="{escaped(place.id)}"}} {place.seats}'
    yield from family("headworks_gateway_seat_changes_total", "counter", "Times that seats were given or taken.")
    for name, gate in sorted(gates.by_name.items()):
        yield f"headworks_gateway_seat_changes_total{{{labels(name)}}} {gate.seat_changes}"
    yield from family("headworks_gateway_kv_tokens_reserved", "gauge", "KV tokens held by what runs in a replica.")
    for name, place in places:
        tokens = place.ledger.reserved_tokens
        yield f'headworks_gateway_kv_tokens_reserved{{{labels(name)},replica="{escaped(place.id)}"}} {tokens}'
    yield from _by_engine(gates)


def _by_engine(gates: Gates) -> Iterable[str]:
    engines = [
        (f'{labels(name)},replica="{escaped(replica_id)}"', cache)
        for name, gate in sorted(gates.by_name.items())
        for replica_id, cache in gate.caches.by_replica.items()
    ]
    text = "KV tokens in use in an engine that nobody has reserved."
    yield from family("headworks_gateway_kv_tokens_unseen", "gauge", text)
    for own, cache in engines:
        yield f"headworks_gateway_kv_tokens_unseen{{{own}}} {cache.unseen_tokens}"
    text = "Requests that a replica's engine threw out of its full KV cache, to be computed again."
    yield from family("headworks_gateway_engine_preemptions_total", "counter", text)
    for own, cache in engines:
        yield f"headworks_gateway_engine_preemptions_total{{{own}}} {round(cache.preempted or 0.0)}"


def _estimates(gates: Gates) -> Iterable[str]:
    text = "Estimated against counted prompt tokens: the sum of |estimated - counted| / counted."
    yield from family("headworks_gateway_prompt_estimate_error", "summary", text)
    for name, gate in sorted(gates.by_name.items()):
        total = sum(prompts.error_sum for prompts in gate.sizes.prompts.values())
        count = sum(prompts.error_count for prompts in gate.sizes.prompts.values())
        yield f"headworks_gateway_prompt_estimate_error_sum{{{labels(name)}}} {total:.6g}"
        yield f"headworks_gateway_prompt_estimate_error_count{{{labels(name)}}} {count}"
    yield from family("headworks_gateway_overbooked_total", "counter", "Times a stream outgrew a replica's KV tokens.")
    for name, gate in sorted(gates.by_name.items()):
        yield f"headworks_gateway_overbooked_total{{{labels(name)}}} {gate.overbooked}"
    text = "Times a stream outgrew its tier's share of a replica's KV tokens."
    yield from family("headworks_gateway_beyond_share_total", "counter", text)
    for name, gate in sorted(gates.by_name.items()):
        yield f"headworks_gateway_beyond_share_total{{{labels(name)}}} {gate.beyond_share}"


def _ladders(gates: Gates) -> Iterable[str]:
    own = [(labels(name), gate) for name, gate in sorted(gates.by_name.items())]
    text = "How near a deployment is to its limits; 1 = one of them is reached."
    yield from family("headworks_gateway_saturation", "gauge", text)
    for label, gate in own:
        yield f"headworks_gateway_saturation{{{label}}} {gate.degrader.value:.4g}"
    yield from family("headworks_gateway_degradation_level", "gauge", "Steps of the ladder that are climbed.")
    for label, gate in own:
        yield f"headworks_gateway_degradation_level{{{label}}} {gate.degrader.level}"
    tiers = [(f'{label},tier="{tier}"', one) for label, gate in own for tier, one in gate.degrader.by_tier.items()]
    yield from family("headworks_gateway_tier_saturation", "gauge", text)
    for label, one in tiers:
        yield f"headworks_gateway_tier_saturation{{{label}}} {one.value:.4g}"
    text = "Steps of the ladder that a tier has climbed."
    yield from family("headworks_gateway_tier_degradation_level", "gauge", text)
    for label, one in tiers:
        yield f"headworks_gateway_tier_degradation_level{{{label}}} {one.level}"
    yield from family("headworks_gateway_degraded_total", "counter", "Requests that were degraded, by what was done.")
    for label, gate in own:
        for action, count in sorted(gate.degraded.items()):
            yield f'headworks_gateway_degraded_total{{{label},action="{action}"}} {count}'


def _quotas(quotas: Quotas) -> Iterable[str]:
    yield from family("headworks_gateway_quota_refused_total", "counter", "Requests that a quota had no room for.")
    for (tenant, quota, measure), count in sorted(quotas.refused.items()):
        own = f'tenant="{escaped(tenant)}",quota="{escaped(quota)}",measure="{measure}"'
        yield f"headworks_gateway_quota_refused_total{{{own}}} {count}"
    text = "Whether Valkey does not answer, so that quotas go on with what this gateway holds."
    yield from gauge("headworks_gateway_quotas_cut_off", text, int(quotas.is_cut_off))
    yield from family("headworks_gateway_quota_syncs_total", "counter", "Round trips to Valkey for quotas.")
    leases = quotas.leases
    for outcome, count in (("answered", leases.round_trips), ("failed", leases.failures)) if leases else ():
        yield f'headworks_gateway_quota_syncs_total{{outcome="{outcome}"}} {count}'
