"""The degradation ladder at work: what saturates a deployment, and what is done to its requests while it does.

Guarantees
    Below the first step a request costs one comparison. A request is sent to another deployment at most once, and only
    where its key may use that and a replica of it is ready.
Does not do
    Decide when a step is climbed: `controlplane.domain.degradation` does.
Concurrency
    One event loop; changes in place.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.domain.degradation import Asked, Outcome
from controlplane.domain.routing import RoutedDeployment, RoutedKey
from controlplane.domain.tier_degradation import TierSecond, saturations
from controlplane.gateway.asks import Ask
from controlplane.gateway.client import Headers
from controlplane.gateway.errors import shed
from controlplane.gateway.gate import Gate
from controlplane.gateway.ladder_news import LadderNews
from controlplane.gateway.signals import NOTHING, EngineSample

logger = logging.getLogger(__name__)

OPT_OUT, NEVER = b"x-headworks-degrade", b"never"
FOR_WANT_OF_ROOM = frozenset({"queue_full", "queue_bytes", "too_slow", "expired", "engine_full"})
NO_CAP = frozenset({"/embeddings"})


@dataclass(slots=True)
class _Seen:
    """What had been counted of a tier by the last look."""

    admitted: int = 0
    refused: int = 0


class Ladders:
    """Moves all gates of a process on their ladders, and applies these to requests."""

    def __init__(self, gates: Mapping[str, Gate], refused_status: int) -> None:
        self.news = LadderNews()
        self._gates = gates
        self._refused_status = refused_status
        self._seen: dict[tuple[str, str], _Seen] = {}  # (deployment, tier)

    def look_at(self, gate: Gate, samples: Mapping[str, EngineSample], now: float) -> None:
        """Takes one second of a gate; `now` is of the monotonic clock."""
        now_is = saturations(self._second(gate, now), _kv_usage(gate, samples))
        is_idle = not (gate.admission.seated or gate.admission.waiting)
        for change in gate.degrader.observe(now_is, now, frozen=gate.is_frozen, is_idle=is_idle):
            self.news.add(gate.name, change, time.time())
            text = "%s: degradation level %d -> %d (%s): %s"
            logger.warning(text, gate.name, change.before, change.after, ", ".join(change.tiers), change.why)

    def forget(self, name: str) -> None:
        """A deployment is no more."""
        for address in [one for one in self._seen if one[0] == name]:
            del self._seen[address]

    def outcome(self, gate: Gate, ask: Ask, key: RoutedKey, headers: Headers, diverted_from: str) -> Outcome:
        """Returns what is to be done to a request."""
        steps = gate.degrader.ladder.steps[: gate.degrader.level]
        named = {step.deployment for step in steps if step.kind == "divert"}
        asked = Asked(gate.tier_of(key.tier), gate.sizes.limit(ask), wants_all(headers), bool(diverted_from))
        return gate.degrader.apply(asked, [name for name in named if self._may_go(key, name, ask)])

    def apply(self, gate: Gate, ask: Ask, path: str, outcome: Outcome, tier: str) -> str:
        """Does to a request what concerns its answer, and returns how it was capped, as `x-headworks-degraded` says it;
        raises GatewayError where it is shed."""
        if outcome.shed:
            gate.count_refused(gate.tier_of(tier), "shed")
            count(gate, "shed")
            wait_s = math.ceil(gate.degrader.sheds_for_s(gate.tier_of(tier), time.monotonic()))
            raise shed(gate.name, outcome.why, self._refused_status, max(1, wait_s))
        capped = ""
        if outcome.max_tokens is not None and outcome.max_tokens != gate.sizes.limit(ask) and path not in NO_CAP:
            ask.cap(outcome.max_tokens)
            count(gate, "cap_tokens")
            capped = f"max_tokens={outcome.max_tokens}"
        if outcome.divert_to:
            count(gate, "divert")
        return capped

    def deployment(self, name: str) -> RoutedDeployment:
        """Returns a deployment that `outcome` has named."""
        return self._gates[name].deployment

    def _may_go(self, key: RoutedKey, name: str, ask: Ask) -> bool:
        """Whether a deployment would take a request as well as this process knows: how saturated one is that another
        process owns, only that knows."""
        gate = self._gates.get(name)
        if gate is None or not gate.targets or not (key.deployments is None or name in key.deployments):
            return False
        tier = gate.tier_of(key.tier)
        if gate.degrader.level and gate.degrader.apply(Asked(tier, None, diverted=True)).shed:
            return False
        ticket = gate.ticket(ask, key.tenant, key.tier, 0.0)
        return not gate.admission.serving.never_fits(ticket) and self._is_taken(gate, ask, ticket.prompt_tokens)

    @staticmethod
    def _is_taken(gate: Gate, ask: Ask, prompt_tokens: int) -> bool:
        """Whether an engine takes a request of that length, with the answer that it asks for, else with one token."""
        tokens = prompt_tokens + (gate.sizes.limit(ask) or 1)
        limits = [target.replica.max_model_len for target in gate.targets.values()]
        return any(most is None or tokens <= most for most in limits)

    def _second(self, gate: Gate, now: float) -> dict[str, TierSecond]:
        """What has happened to each tier since the last look, and how long it waits."""
        admission = gate.admission
        waits: dict[str, float] = {}
        for ticket in admission.waiting.values():
            ratio = (now - ticket.arrived_at) / max(0.001, ticket.wait_until - ticket.arrived_at)
            waits[ticket.tier] = max(ratio, waits.get(ticket.tier, 0.0))
        found = {}
        for name, tier in admission.policy.tiers.items():
            seen = self._seen.setdefault((gate.name, name), _Seen())
            admitted = admission.admitted[name]
            refused = sum(gate.refused.get((name, why), 0) for why in FOR_WANT_OF_ROOM)
            new = refused - seen.refused
            found[name] = TierSecond(tier.weight, waits.get(name, 0.0), admitted - seen.admitted + new, new)
            seen.admitted, seen.refused = admitted, refused
        return found


def _kv_usage(gate: Gate, samples: Mapping[str, EngineSample]) -> float | None:
    """The mean over the replicas; one in which nothing runs has an empty cache, whoever looked at it last."""
    usages = []
    for place in gate.admission.places.values():
        usage = samples.get(place.id, NOTHING).kv_usage
        if usage is not None or not place.running:
            usages.append(usage or 0.0)
    return sum(usages) / len(usages) if usages else None


def wants_all(headers: Headers) -> bool:
    """Returns whether a client opts out of answers that are worse; it then waits, or is refused."""
    return any(name == OPT_OUT and value.strip().lower() == NEVER for name, value in headers)


def count(gate: Gate, kind: str) -> None:
    """Notes what was done to a request of a deployment."""
    gate.degraded[kind] = gate.degraded.get(kind, 0) + 1
