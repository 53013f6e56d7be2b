"""A serving engine without a model: continuous batching over a block-wise KV cache, with the times of a roofline.

Guarantees
    State changes only through `SimulatedEngine.handle`, which returns what happened. A step takes as long as the
    slower of computing its tokens and reading weights and KV cache, plus a fixed overhead. Running requests go first;
    when blocks run out, the one that came last is preempted and computed anew, as vLLM does it. A request that is
    accepted can always finish: it fits into the empty cache.
Does not do
    Clocks, I/O, text. `now` is passed in; whoever drives it sends `StepEnded` at the time that `StepStarted` named.
    No prefix cache, no speculation; attention's own computing is left out (it is small against the weights').
Concurrency
    One owner; not thread-safe.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from controlplane.domain.simulated_timing import Profile, step_time_s

# Events: what the driver tells the engine.


@dataclass(frozen=True, slots=True)
class Submit:
    """A request has come, with the lengths that it will have."""

    request_id: str
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Abort:
    """The client has gone; the request's blocks come free."""

    request_id: str


@dataclass(frozen=True, slots=True)
class StepEnded:
    """The step that was started is over, so its tokens are there."""


Event = Submit | Abort | StepEnded

# Results: what the engine did.


@dataclass(frozen=True, slots=True)
class StepStarted:
    """The driver owes a `StepEnded` at `ends_at`."""

    ends_at: float


@dataclass(frozen=True, slots=True)
class Token:
    """A request got one token; `since_s` is the time since its arrival (first token) or since the token before."""

    request_id: str
    first: bool
    since_s: float


@dataclass(frozen=True, slots=True)
class Finished:
    """A request got its last token. Times are since its arrival."""

    request_id: str
    prompt_tokens: int
    output_tokens: int
    queued_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class Rejected:
    """A request that can never run: it needs more than the whole cache holds, or is longer than allowed."""

    request_id: str
    reason: str


Result = StepStarted | Token | Finished | Rejected


@dataclass(slots=True)
class _Request:
    id: str
    prompt: int
    output: int  # tokens it will have got at the end
    arrived_at: float
    last_token_at: float
    started_at: float | None = None
    generated: int = 0
    computed: int = 0  # tokens whose KV lies in the cache
    blocks: int = 0

    @property
    def total(self) -> int:
        """The tokens that it has so far, given and generated."""
        return self.prompt + self.generated


@dataclass(slots=True)
class Counters:
    """What has happened since the start, for the engine's metrics."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    finished: int = 0
    aborted: int = 0


@dataclass(slots=True)
class SimulatedEngine:
    """The engine's whole state. Read it freely, change it through `handle` only."""

    profile: Profile
    counters: Counters = field(default_factory=Counters)
    _requests: dict[str, _Request] = field(default_factory=dict)
    _waiting: deque[_Request] = field(default_factory=deque)
    _running: list[_Request] = field(default_factory=list)
    _step: dict[str, int] | None = None  # request id -> tokens computed in the step under way
    _free_blocks: int = 0
    _now: float = 0.0

    def __post_init__(self) -> None:
        self._free_blocks = self.profile.kv_blocks

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests that have no place in the batch yet or lost it."""
        return len(self._waiting)

    @property
    def kv_usage(self) -> float:
        """Share of the KV blocks in use, 0 to 1."""
        total = self.profile.kv_blocks
        return (total - self._free_blocks) / total if total else 0.0

    def handle(self, event: Event, now: float) -> list[Result]:
        """Takes one event at `now` (seconds of any monotonic clock) and returns what came of it, in order."""
        self._now = max(self._now, now)
        results: list[Result] = []
        if isinstance(event, Submit):
            self._submit(event, results)
        elif isinstance(event, Abort):
            self._abort(event.request_id)
        else:
            self._finish_step(results)
        if self._step is None and self._requests:
            self._start_step(results)
        return results

    def _submit(self, event: Submit, results: list[Result]) -> None:
        assert event.request_id not in self._requests, f"request {event.request_id} was submitted twice"
        assert event.prompt_tokens > 0 and event.output_tokens > 0, "a request has tokens on both sides"
        total = event.prompt_tokens + event.output_tokens
        if total > self.profile.max_model_len:
            reason = f"{total} tokens are more than the context length of {self.profile.max_model_len}."
            results.append(Rejected(event.request_id, reason))
            return
        if self._blocks_for(total) > self.profile.kv_blocks:
            capacity = self.profile.kv_blocks * self.profile.block_size
            results.append(Rejected(event.request_id, f"{total} tokens are more than the KV cache holds ({capacity})."))
            return
        request = _Request(event.request_id, event.prompt_tokens, event.output_tokens, self._now, self._now)
        self._requests[request.id] = request
        self._waiting.append(request)

    def _abort(self, request_id: str) -> None:
        request = self._requests.pop(request_id, None)
        if request is None:
            return  # it finished while the news was under way
        self.counters.aborted += 1
        self._release(request)
        if request in self._running:
            self._running.remove(request)
        else:
            self._waiting.remove(request)
        if self._step is not None:
            self._step.pop(request_id, None)

    def _start_step(self, results: list[Result]) -> None:
        step = self._schedule()
        assert step, "requests are there, none fits: an accepted request always fits into the empty cache"
        context = sum(self._requests[request_id].computed + count for request_id, count in step.items())
        self._step = step
        results.append(StepStarted(self._now + step_time_s(self.profile, sum(step.values()), context)))

    def _schedule(self) -> dict[str, int]:
        step: dict[str, int] = {}
        budget = self.profile.max_num_batched_tokens
        preempted = False
        index = 0
        while index < len(self._running) and budget > 0:
            request = self._running[index]
            count = min(request.total - request.computed, budget)
            while not self._grow(request, request.computed + count):
                preempted = True
                victim = self._running.pop()
                self._preempt(victim)
                if victim is request:
                    break
            else:
                step[request.id] = count
                budget -= count
                index += 1
        while not preempted and self._waiting and budget > 0 and len(self._running) < self.profile.max_num_seqs:
            request = self._waiting[0]
            count = min(request.total, budget)
            if not self._grow(request, count):
                break
            self._running.append(self._waiting.popleft())
            if request.started_at is None:
                request.started_at = self._now
            step[request.id] = count
            budget -= count
        return step

    def _preempt(self, request: _Request) -> None:
        self.counters.preemptions += 1
        self._release(request)
        self._waiting.appendleft(request)

    def _finish_step(self, results: list[Result]) -> None:
        assert self._step is not None, "a step ended that was not started"
        for request_id, count in self._step.items():
            request = self._requests[request_id]
            request.computed += count
            if request.computed == request.total:
                self._give_token(request, results)
        self._step = None

    def _give_token(self, request: _Request, results: list[Result]) -> None:
        first = request.generated == 0
        if first:
            self.counters.prompt_tokens += request.prompt
        request.generated += 1
        self.counters.generation_tokens += 1
        results.append(Token(request.id, first, self._now - request.last_token_at))
        request.last_token_at = self._now
        if request.generated < request.output:
            return
        del self._requests[request.id]
        self._running.remove(request)
        self._release(request)
        self.counters.finished += 1
        started_at = self._now if request.started_at is None else request.started_at
        queued_s, total_s = started_at - request.arrived_at, self._now - request.arrived_at
        results.append(Finished(request.id, request.prompt, request.generated, queued_s, total_s))

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.profile.block_size)

    def _grow(self, request: _Request, tokens: int) -> bool:
        more = self._blocks_for(tokens) - request.blocks
        if more > self._free_blocks:
            return False
        if more > 0:
            self._free_blocks -= more
            request.blocks += more
        return True

    def _release(self, request: _Request) -> None:
        self._free_blocks += request.blocks
        request.blocks = request.computed = 0

    def check_invariants(self) -> None:
        """Raises AssertionError when the state contradicts itself."""
        held = sum(request.blocks for request in self._requests.values())
        assert held + self._free_blocks == self.profile.kv_blocks, "blocks were lost or made up"
        assert len(self._running) <= self.profile.max_num_seqs, "more requests run than there are seats"
        placed = [request.id for request in (*self._running, *self._waiting)]
        assert sorted(placed) == sorted(self._requests), "every request either runs or waits, once"
        for request in self._waiting:
            assert request.blocks == 0, f"{request.id} waits and holds blocks"
        for request in self._running:
            assert request.generated < request.output, f"{request.id} has all its tokens and still runs"
            assert request.blocks >= self._blocks_for(request.computed), f"{request.id} has tokens without blocks"
        if self._step is None:
            assert not self._requests, "requests are there and no step is under way"
        else:
            assert set(self._step) <= {request.id for request in self._running}, "a step has requests that do not run"
