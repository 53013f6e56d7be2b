"""What one copy of a model delivers when a fixed number of requests is always in it.

A request waits, is prefilled, then decodes. Each step that takes a prompt along is longer than a plain decode step;
running requests feel that (chunked prefill, mixed batches). Little's law ties the three together: requests a second =
concurrency / (time to first token + decoding time). Solved by repeated substitution.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from controlplane.domain.performance.setup import Workload
from controlplane.domain.performance.step_time import Rates, Step, decode, mixed

ROUNDS = 10
MOST_PROMPT_SHARE = 0.97


@dataclass(frozen=True, slots=True)
class Limits:
    """What one copy can run at once: requests by setting, tokens by KV memory, prompt tokens a step."""

    requests: float
    kv_tokens: float
    step_tokens: float

    def running(self, workload: Workload) -> float:
        """Requests that fit at the mean length they have while they run."""
        return max(1.0, min(self.requests, self.kv_tokens / max(1.0, workload.mean_context_tokens)))


@dataclass(frozen=True, slots=True)
class State:
    """Steady state of one copy. `prompt_s` is what a prompt adds to the steps that carry it."""

    concurrency: float
    running: float
    decoding: float
    ttft_s: float
    tpot_s: float
    requests_per_s: float
    step: Step
    step_s: float  # of a mean step, prompts that were taken along included
    prompt_s: float
    prompt_share: float  # of the time
    wait_s: float
    preemptions: float  # per request


def solve(speed: Rates, load: Workload, limits: Limits, concurrency: float) -> State:
    """The steady state at `concurrency` requests in one copy (running and waiting)."""
    most = limits.running(load)
    running = min(concurrency, most)
    preempted = _preemptions(load, limits, concurrency)
    prompt = load.input_tokens
    work_tokens = prompt + preempted * load.mean_context_tokens
    steps = max(1.0, load.output_tokens - 1) / speed.accepted
    others = max(0.0, running - 1)
    context = load.mean_context_tokens
    step = decode(speed, running, context)
    step_s, first_s = step.seconds, speed.first_s
    prompt_s = share = 0.0
    decoding = running
    for _ in range(ROUNDS):
        alive = first_s + steps * step_s
        rate = running / alive
        decoding = max(min(1.0, running), running * steps * step_s / alive)
        step = decode(speed, decoding, context)
        plain = step.seconds
        chunk = min(limits.step_tokens, max(prompt, prompt * rate * plain))
        loaded = mixed(speed, decoding, context, chunk, prompt).seconds
        prompt_s = (loaded - plain) * work_tokens / chunk
        new_step_s = plain + speed.interference * prompt_s * others * step_s / alive
        share = min(MOST_PROMPT_SHARE, rate * prompt_s)
        own = max(1.0, prompt / chunk) * plain + prompt_s * prompt / work_tokens
        queue = share / (1 - share) * prompt_s / 2 + plain / 2
        new_first_s = speed.first_s + speed.first * own + min(queue, others * prompt_s)
        step_s += 0.6 * (new_step_s - step_s)
        first_s += 0.6 * (new_first_s - first_s)
    alive = first_s + steps * step_s
    rate = running / alive
    wait = max(0.0, concurrency / rate - alive)
    ttft = first_s + wait + _wave(speed, load, concurrency) * others / 2 * prompt_s
    return State(
        concurrency,
        running,
        decoding,
        ttft,
        step_s / speed.accepted,
        rate,
        step,
        step_s,
        prompt_s,
        share,
        wait,
        preempted,
    )


def _wave(speed: Rates, load: Workload, concurrency: float) -> float:
    """Share of requests that come all at once, so that each waits for half of the others' prompts."""
    if load.requests is None:
        return speed.wave
    return 0.0 if load.requests == inf else min(1.0, max(speed.wave, concurrency / max(load.requests, 1.0)))


def _preemptions(load: Workload, limits: Limits, concurrency: float) -> float:
    """How often a request is thrown out of a full cache and computed again, on average.

    Engines admit a waiting request as soon as its prompt fits; then all running ones grow, and while more wait than
    fit at full length, each pass of growth throws some out. Their share is the growth (the answer) in what a request
    holds at its end, and fades in as the number of requests passes what memory holds.
    """
    fits = limits.kv_tokens / max(1.0, load.mean_context_tokens)
    asked = min(concurrency, limits.requests)
    if asked <= fits:
        return 0.0
    growth = load.output_tokens / (load.input_tokens + load.output_tokens)
    return growth * min(1.0, asked / fits - 1.0)
