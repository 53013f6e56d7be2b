"""Admission of one deployment at work: who waits is woken, who leaves gives back, what was counted is learned.

Guarantees
    A request holds a seat and KV tokens from before it is sent until `leave`, which may be called any number of times
    and gives back once. One that has left while it waited is never sent. At rest every counter is 0.
Does not do
    I/O. Its decisions are those of `controlplane.domain.admission`.
Concurrency
    One event loop; changes in place.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from controlplane.domain import steering
from controlplane.domain.admission.breaker import Breaker, Progress, is_failure, is_success
from controlplane.domain.admission.engine_caches import EngineCaches
from controlplane.domain.admission.in_time import Flow
from controlplane.domain.admission.policy import Policy
from controlplane.domain.admission.queueing import Admission
from controlplane.domain.admission.seats import Seats
from controlplane.domain.admission.ticket import Answer, Dispatch, Queued, Refusal, Ticket
from controlplane.domain.admission.tiers import INTERACTIVE, STANDARD, Tier, longest_wait_s
from controlplane.domain.degradation import Ladder
from controlplane.domain.routing import RoutedDeployment, RoutedReplica
from controlplane.domain.sequence_kv import SequenceKv
from controlplane.domain.tier_degradation import TierLadders
from controlplane.gateway.asks import Ask
from controlplane.gateway.errors import GatewayError
from controlplane.gateway.refusals import refusal_error
from controlplane.gateway.seating import EXTERNAL, limits_of, policy_of, tells
from controlplane.gateway.sizes import Sizes
from controlplane.gateway.waiters import Waiters
from controlplane.lib.upstream import Pool

logger = logging.getLogger(__name__)

PREFILL_AHEAD_SHARE = 0.2  # of the TTFT target: so long prompts that a replica has may take it when it gets another
TICKET_NUMBERS = itertools.count(1)
AFFINITY_BYTES = 1024  # two requests that begin with the same so many bytes profit from the same replica


@dataclass(frozen=True, slots=True)
class Target:
    """A replica and the connections to it."""

    replica: RoutedReplica
    pool: Pool


class MovedError(Exception):
    """Another gateway process owns the deployment by now: ask there."""


class Gate:
    """One deployment. `policy` stands where nobody has said anything else; `refused_status` is that of an answer to
    overload; `sequences_most` how many answers a request may ask for."""

    def __init__(self, deployment: RoutedDeployment, policy: Policy, refused_status: int, sequences_most: int) -> None:
        self.name = deployment.name
        self._own_policy = policy
        self._policy = policy_of(deployment, policy)  # as the snapshot has it
        self.admission = Admission(self._policy)
        self.breaker = Breaker()
        self.deployment = deployment  # with the replicas that can be used
        self.degrader = TierLadders(deployment.ladder, self._policy.weights())
        self.degraded: dict[str, int] = {}  # what was done -> requests
        self.sizes = Sizes(sequences_most)
        self.seats: dict[str, Seats] = {}
        self.progress: dict[str, Progress] = {}
        self.caches = EngineCaches()
        self.targets: dict[str, Target] = {}
        self.refused: dict[tuple[str, str], int] = {}  # (tier, why) -> requests
        self.finished: dict[str, int] = {}  # replica id -> exchanges that have ended
        self.seat_changes = 0
        self.overbooked = 0  # times that streams grew beyond the capacity
        self.beyond_share = 0  # or beyond their tier's share of it
        self._refused_status = refused_status
        self._elsewhere: Mapping[str, tuple[int, int]] = {}
        self._waiters: Waiters[Target] = Waiters(self._due)
        self.tpot_target_s, self._ttft_target_s = deployment.tpot_target_s, deployment.ttft_target_s
        self._waits: dict[str, tuple[Tier, float | None]] = {}  # tier -> its rules and its target of the first token
        self.is_external = False
        self.is_frozen = False  # nothing changes by itself
        self._steering = self._salted = frozenset[str]()  # fields that are ours; paths that get the tenant's salt
        self._salts: dict[str, msgspec.Raw] = {}  # tenant id -> its salt as JSON
        self._affine = False  # whether there is a choice at all
        self._sequence_kv: SequenceKv | None = None

    # -- replicas ----------------------------------------------------------------------------------------------------

    def update(self, deployment: RoutedDeployment, pools: Mapping[str, Pool], now: float) -> None:
        """Takes over the replicas of a new snapshot."""
        self.is_external = deployment.engine == EXTERNAL
        self.sizes.engine = deployment.engine
        self.deployment, self.is_frozen = deployment, deployment.frozen
        is_vllm = bool(deployment.replicas) and all(one.takes_salt for one in deployment.replicas)
        self._salted = steering.salted_paths("vllm" if is_vllm else deployment.engine)
        self._steering = steering.fields(deployment.engine, [one.engine_version for one in deployment.replicas])
        self._salts.clear()
        self.targets = {one.id: Target(one, pools[one.id]) for one in deployment.replicas}
        self._ttft_target_s, self.tpot_target_s = deployment.ttft_target_s, deployment.tpot_target_s
        self._affine = len(self.targets) > 1
        self._sequence_kv = next((one.sequence_kv for one in deployment.replicas if one.sequence_kv is not None), None)
        lengths = [one.max_model_len or one.kv_capacity_tokens or 0 for one in deployment.replicas]
        self.sizes.context_tokens = max(lengths, default=self.sizes.context_tokens)
        for gone in [one for one in self.seats if one not in self.targets]:
            del self.seats[gone]
            self.progress.pop(gone, None)
            self.finished.pop(gone, None)
        self.breaker.keep_only(self.targets)
        self.caches.keep_only(self.targets)
        ahead_s = math.inf if self._ttft_target_s is None else PREFILL_AHEAD_SHARE * self._ttft_target_s
        self.admission.serving.prefill_ahead_s = ahead_s
        self._set_waits()
        self.set_seats(now)
        policy = policy_of(deployment, self._own_policy)
        self.degrader.set_rules(deployment.ladder or Ladder(), policy.weights())
        if policy != self._policy:
            self._policy = policy
            self._deliver(self.admission.set_policy(policy, now))
            self._set_waits()

    def set_limits(self, now: float) -> None:
        """Moves the bounds of the seats after what requests have taught since."""
        for replica_id, target in self.targets.items():
            seats = self.seats[replica_id]
            knee = seats.ceiling_known(now)
            seats.limits = limits_of(target.replica, self.deployment, self.sizes.mean_tokens, knee)

    def set_seats(self, now: float) -> None:
        """Tells admission how many may run where."""
        for replica_id, target in self.targets.items():
            if replica_id not in self.seats:
                limits = limits_of(target.replica, self.deployment, self.sizes.mean_tokens)
                known, promised = tells(target.replica), self.deployment.tpot_target_s is not None
                self.seats[replica_id] = Seats.start(limits, is_known=known, is_promised=promised)
                self.progress[replica_id] = Progress(now)
        self.set_limits(now)
        counts = {replica_id: self.seats[replica_id].now for replica_id in self.targets}
        capacity = {one: target.replica.kv_capacity_tokens for one, target in self.targets.items()}
        held = self.caches.added_to(self._elsewhere)
        self._deliver(self.admission.set_replicas(counts, capacity, now, held, self._sequence_kv))

    def close(self, now: float) -> None:
        """The deployment has left the snapshot: nothing new, and whoever waits is told."""
        self.targets, self.seats, self.progress = {}, {}, {}
        self._deliver(self.admission.set_replicas({}, {}, now))
        self._deliver(self.admission.refuse_all(now))

    def set_elsewhere(self, held: Mapping[str, tuple[int, int]], now: float) -> None:
        """Takes over what other gateway processes still hold in its replicas: (requests, KV tokens)."""
        if held != self._elsewhere:
            self._elsewhere = held
            self.set_seats(now)

    def let_go(self) -> None:
        """Another process owns the deployment now: whoever waits here is told so by MovedError."""
        for ticket in list(self.admission.waiting.values()):
            self.admission.abandoned(ticket.id)
            self._waiters.fail(ticket.id, MovedError())

    def check_invariants(self) -> None:
        """Raises AssertionError with the sum that is wrong."""
        self.admission.check_invariants()
        waiting = self._waiters.waiting()
        assert waiting == set(self.admission.waiting), f"{waiting} are waited for, {set(self.admission.waiting)} wait"

    def rest(self, replica_id: str, seconds: float, now: float) -> None:
        """Leaves a replica alone for a while, unless no other is left: then all are tried again."""
        places = self.admission.places
        if replica_id not in places:
            return
        others = [one for one in places.values() if one.id != replica_id and not one.leaving]
        if any(one.rests_until <= now for one in others):
            self.admission.rest(replica_id, now + seconds)
            return
        for one in others:
            if not self.progress[one.id].is_stalled:
                self.admission.rest(one.id, 0.0)

    # -- requests ----------------------------------------------------------------------------------------------------

    def prepare(self, ask: Ask, path: str, tenant_id: str) -> Sequence[str]:
        """Takes out what is not a client's to say, puts the tenant's salt in, and returns the names of what went."""
        ignored: Sequence[str] = () if self._steering.isdisjoint(ask.fields) else ask.take_out(self._steering)
        if path in self._salted:
            salt = self._salts.get(tenant_id)
            if salt is None:
                salt = self._salts[tenant_id] = msgspec.Raw(msgspec.json.encode(f"tenant-{tenant_id}"))
            ask.put("cache_salt", salt)
        return ignored

    def ticket(self, ask: Ask, tenant: str, tier: str, now: float) -> Ticket:
        """Returns the ticket of a request; raises GatewayError 400 for one that asks for too many answers."""
        tier = self.tier_of(tier)
        serving, (rules, ttft_s) = self.admission.serving, self._waits[tier]
        prompt, output, sequences, sure = self.sizes.of(ask, tenant, serving.longest_tokens)
        wait_until = now + longest_wait_s(rules, ttft_s, serving.prefill.high_s(prompt) if ttft_s else 0.0)
        affinity = ask.affinity(tenant, AFFINITY_BYTES) if self._affine else ""
        number = str(next(TICKET_NUMBERS))
        size = ask.body_bytes
        return Ticket(number, tenant, tier, prompt, output, now, wait_until, size, affinity, sequences, sure)

    def tier_of(self, name: str) -> str:
        """Returns the tier of a request whose key belongs to that one: it may have been taken away, or be too new."""
        return name if name in self._waits else STANDARD.name

    def seat_at_once(self, ticket: Ticket, now: float) -> Target | None:
        """Returns where to send a request when there is a seat right now, which it holds then; else ask `seat`."""
        place = self.admission.seat_at_once(ticket, now)
        return None if place is None else self.targets[place.id]

    async def seat(self, ticket: Ticket, now: float) -> Target | None:
        """Returns where to send a request, its seat and tokens being held; raises GatewayError when it is refused.

        None: it left while it waited (see `leave`).
        """
        answers = self.admission.arrive(ticket, now)
        answer = answers.pop()
        self._deliver(answers)
        match answer:
            case Dispatch():
                return self.targets[answer.replica_id]
            case Refusal():
                raise self._refusal(answer)
        self._waiters.come_back_at(self.admission.next_fill_at(now), now)
        return await self._waiters.wait(ticket.id, ticket.wait_until - now)

    def leave(self, ticket: Ticket, used_tokens: int | None = None) -> None:
        """The request is over, in whichever way and wherever it stands; who is next is woken."""
        admission, now = self.admission, time.monotonic()
        if ticket.id in admission.seated:
            answers = admission.ended(ticket.id, now, used_tokens)
        elif admission.abandoned(ticket.id):
            answers = admission.fill(now)
        else:
            return
        self._waiters.left(ticket.id)
        if answers:
            self._deliver(answers)
        if admission.queue.count:
            self._waiters.come_back_at(admission.next_fill_at(now), now)

    def answered(self, replica_id: str, status: int | None, broken: bool, now: float) -> None:
        """Takes how an exchange ended, for the breaker; None = it tells nothing of the replica."""
        self.finished[replica_id] = self.finished.get(replica_id, 0) + 1
        if status is None:
            return
        if not (broken or is_failure(status)):
            if is_success(status):
                self.breaker.succeeded(replica_id)
        elif (rest_s := self.breaker.failed(replica_id)) is not None:
            logger.warning("replica %s of %s fails again and again; it rests for %.0f s", replica_id, self.name, rest_s)
            self.rest(replica_id, rest_s, now)

    def engine_is_full(self, ticket: Ticket) -> GatewayError:
        """Returns what a client is told for whose request the engine itself had no room (its own limit is a backstop),
        nor any other replica."""
        why = "The engine's own queue is full."
        return self._refusal(self.admission.refusing.refuse(ticket, "engine_full", why, time.monotonic()))

    def learn_prefill(self, ticket: Ticket, first_at: float | None) -> None:
        """Takes when the first event of a stream came."""
        if first_at is not None and ticket.seated_at:
            self.admission.serving.prefill.learn(ticket.prompt_tokens, first_at - ticket.seated_at)

    def flow(self, streams: int, events: int) -> Flow:
        """Returns what one second of a replica says of its pace."""
        admission = self.admission
        return Flow(streams, events, max(0.0, admission.refusing.hold.seconds - admission.serving.prefill.seconds))

    def count_refused(self, tier: str, why: str) -> None:
        """Counts a request that gets no answer from here."""
        self.refused[tier, why] = self.refused.get((tier, why), 0) + 1

    def tick(self, now: float) -> None:
        """Ends what has waited too long and gives away what has become free."""
        if self.admission.queue.count or self.admission.is_parting:
            self._deliver(self.admission.tick(now))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _due(self) -> None:
        now = time.monotonic()
        self.tick(now)
        self._waiters.come_back_at(self.admission.next_fill_at(now), now)

    def _deliver(self, answers: list[Answer]) -> None:
        for answer in answers:
            match answer:
                case Dispatch():
                    self._waiters.give(answer.ticket.id, self.targets[answer.replica_id])
                case Refusal():
                    self._waiters.fail(answer.ticket.id, self._refusal(answer))
                case Queued():
                    raise AssertionError("a request that waits is told so again")

    def _refusal(self, answer: Refusal) -> GatewayError:
        ticket = answer.ticket
        self.count_refused(ticket.tier, answer.code)
        waited_s = time.monotonic() - ticket.arrived_at
        return refusal_error(answer, self.deployment, waited_s, self._refused_status)

    def _set_waits(self) -> None:
        target_s = self._ttft_target_s
        tiers = self._policy.tiers.values()
        self._waits = {tier.name: (tier, target_s if tier.name == INTERACTIVE.name else None) for tier in tiers}
