"""Rows of the memory ledger: written at a placement, completed by what the engine measured when it is ready."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from django.utils import timezone

from controlplane.deployments.models import Deployment, LedgerRow, Replica, Revision
from controlplane.deployments.services import ledgers, mean_request, starts
from controlplane.deployments.services.ledgers import Known
from controlplane.domain.ledger import advice, carried, measured, one_request
from controlplane.domain.ledger.corrections import Comparison, CorrectionKey
from controlplane.domain.ledger.measured import Measured
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.observed import EngineFacts
from controlplane.fleet.models import Accelerator, Node
from controlplane.lib import wire

LOG_ROUNDS_BYTES = 2**30 // 200  # engines log GiB with two digits


def write(deployment: Deployment, replica_id: str, node: Node, card: Accelerator, memory_bytes: int | None) -> None:
    """Writes what the ledger says of a replica that was placed on such a card of a node."""
    assert deployment.revision is not None
    mean = mean_request.tokens(deployment.name)
    card.node = node
    make = ledgers.make_of_row(card, deployment.engine)
    spec = deployment.revision.spec
    found = ledgers.of_spec(deployment.variant, spec, make, mean_request_tokens=mean)
    values = {"deployment": deployment.name, **columns(found, mean), "claim_bytes": memory_bytes}
    values["advice"] = [*values.get("advice", []), *(asdict(one) for one in advice.in_turn(starts.beside(replica_id)))]
    LedgerRow.objects.update_or_create(replica=replica_id, defaults=values)


def complete(row: Replica, facts: EngineFacts) -> None:
    """Writes what a ready engine measured beside what was predicted; the first start of a replica counts."""
    kept = LedgerRow.objects.filter(replica=row.pk, measured_at=None).first()
    seen = measured.of_engine(facts)
    if kept is None or not seen.sources:
        return
    kept.measured = {name: value for name, value in asdict(seen).items() if value not in (None, (), {})}
    kept.measured_at = timezone.now()
    found = _again(row) if not kept.why_unknown else None
    if isinstance(found, Known):
        _compare(kept, found, seen)
    kept.save()


def shown(ledger: Ledger) -> dict[str, Any]:
    """Returns the predicted sums as rows keep them and pages show them.

    What an engine on CPU cores takes beside weights and cache is not worked out, so it is None there.
    """
    of_card: dict[str, Any] = {
        "non_torch_bytes": ledger.budget.non_torch_bytes,
        "activation_bytes": ledger.budget.activation_bytes,
        "graphs_bytes": ledger.budget.graphs_bytes,
        "total_bytes": ledger.budget.total_bytes,
        "requested_bytes": ledger.budget.requested_bytes,
    }
    parts, carrying = ledger.budget.parts, ledger.carried
    if ledger.setup.card.is_cpu:
        of_card = dict.fromkeys(of_card)
        parts = tuple(part for part in parts if part.name in ("weights", "adapters", "kv_cache"))
    return {
        **of_card,
        "weights_bytes": ledger.budget.weights_bytes + ledger.budget.adapter_bytes,
        "kv_cache_bytes": ledger.available_bytes,
        "kv_cache_tokens": ledger.tokens,
        # a hybrid's own number counts no capacity
        "capacity_tokens": (carrying.capacity_tokens if carrying else None) if ledger.layout.hybrid else ledger.tokens,
        "sequence_kv": asdict(carrying.sequence) if carrying else None,
        "gpu_blocks": ledger.blocks,
        "kv_bytes_per_token": round(ledger.kv_bytes_per_token, 2),
        "needed_bytes": ledger.needed_bytes,
        "longest_tokens": ledger.longest_tokens,
        "max_model_len": ledger.setup.max_model_len,
        "max_num_seqs": ledger.setup.max_num_seqs,
        "fits": ledger.verdict.fits,
        "starts": ledger.verdict.reason not in one_request.NEVER_STARTS,  # False = no memory would help
        "sentence": ledger.verdict.sentence,
        "capped": ledger.budget.capped,
        "parts": [{"name": part.name, "bytes": part.size_bytes} for part in parts],
    }


def columns(found: ledgers.Answer, mean_tokens: int | None) -> dict[str, Any]:
    """Returns what a row keeps of a ledger; `mean_tokens` of a request, None = nobody has sent one yet."""
    if not isinstance(found, Known):
        return {"why_unknown": found.why}
    ledger, key = found.ledger, measured.key_of(found.ledger, Measured())
    mean = min(mean_tokens or ledgers.USUAL_REQUEST_TOKENS, ledger.setup.max_model_len)
    notes = [] if mean_tokens else [f"Nobody has sent a request yet; {mean} tokens were taken for a mean one."]
    return {
        **_key(key),
        "why_unknown": "",
        "claim_bytes": found.claim_bytes,
        "predicted": shown(ledger),
        "correction": {**asdict(ledger.correction), "sentence": ledger.correction.sentence},
        "concurrency_ceiling": found.ceiling(mean),
        "mean_request_tokens": mean,
        "advice": [asdict(one) for one in ledger.advice],
        "assumptions": [*ledger.assumptions, *notes],
    }


def _again(row: Replica) -> ledgers.Answer | None:
    """The ledger of the revision that was started, on the card it was given."""
    revision: Revision = row.revision
    uuids = [one["uuid"] for one in row.assigned]
    card = Accelerator.objects.filter(node=row.node_id, uuid__in=uuids).select_related("node").first()
    if card is None:
        return None
    return ledgers.of_spec(row.deployment.variant, revision.spec, ledgers.make_of_row(card, row.deployment.engine))


def _compare(kept: LedgerRow, found: Known, seen: Measured) -> None:
    key = measured.key_of(found.uncorrected, seen)
    for name, value in _key(key).items():
        setattr(kept, name, value)
    predicted = kept.predicted
    mine = {
        "weights_bytes": seen.weights_bytes,
        "kv_cache_bytes": measured.cache_bytes(found.uncorrected, seen),
        "kv_cache_tokens": seen.kv_cache_tokens,
    }
    kept.error = {
        name: round(value / predicted[name] - 1, 6) for name, value in mine.items() if value and predicted.get(name)
    }
    carrying = carried.of(found.ledger.layout, measured.pool_blocks(found.ledger, seen))
    if carrying is not None:
        mine["capacity_tokens"] = carrying.capacity_tokens
    kept.measured |= {name: value for name, value in mine.items() if value is not None}
    kept.uncorrected = asdict(_agreeing(measured.comparison(found.uncorrected, seen)))


def _agreeing(start: Comparison) -> Comparison:
    """The same, where weights that differ by less than a log's last digit are equal: that teaches nothing."""
    seen, predicted = start.measured_weights_bytes, start.predicted_weights_bytes
    if seen is None or abs(seen - predicted) > LOG_ROUNDS_BYTES:
        return start
    return replace(start, measured_weights_bytes=predicted)


def _key(key: CorrectionKey) -> dict[str, str]:
    return {
        "engine_version": key.engine_version[:32],
        "accelerator": key.accelerator[:100],
        "family": key.family[:64],
    }


def facts_of(row: Replica) -> EngineFacts:
    """Returns what a replica's engine told, of its row."""
    return wire.from_plain(row.facts, EngineFacts)
