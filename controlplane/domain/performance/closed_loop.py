"""What one copy of a model delivers when a fixed number of requests is always in it.

A request waits, is prefilled, then decodes. Each step that takes a prompt along is longer than a plain decode step;
running requests feel that (chunked prefill, mixed batches). Little's law ties the three together: requests a second =
concurrency / (time to first token + decoding time). Solved by repeated substitution.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from controlplane.domain.performance.setup import Workload
from controlplane.domain.performance.step_time import Rates, Step, decode, mixed_s

ROUNDS = 10
DAMPING = 0.6
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


@dataclass(frozen=True, slots=True)
class _Guess:
    """Of the repeated substitution: a mean step, the time to first token without waiting for room."""

    step_s: float
    first_s: float
    decoding: float
    step: Step
    prompt_s: float = 0.0
    share: float = 0.0


def solve(speed: Rates, load: Workload, limits: Limits, concurrency: float) -> State:
    """The steady state at `concurrency` requests in one copy (running and waiting)."""
    running = min(concurrency, limits.running(load))
    preempted = _preemptions(load, limits, concurrency)
    work_tokens = load.input_tokens + preempted * load.mean_context_tokens
    step = decode(speed, running, load.mean_context_tokens)
    guess = _Guess(step.seconds, speed.first_s, running, step)
    for _ in range(ROUNDS):
        guess = _better(guess, speed, load, step_tokens=limits.step_tokens, running=running, work_tokens=work_tokens)
    alive = guess.first_s + _steps(speed, load) * guess.step_s
    rate = running / alive
    wait = max(0.0, concurrency / rate - alive)
    wave_s = _wave(speed, load, concurrency) * max(0.0, running - 1) / 2 * guess.prompt_s
    return State(
        concurrency=concurrency,
        running=running,
        decoding=guess.decoding,
        ttft_s=guess.first_s + wait + wave_s,
        tpot_s=guess.step_s / speed.accepted,
        requests_per_s=rate,
        step=guess.step,
        step_s=guess.step_s,
        prompt_s=guess.prompt_s,
        prompt_share=guess.share,
        wait_s=wait,
        preemptions=preempted,
    )


def _steps(speed: Rates, load: Workload) -> float:
    """Steps that one request decodes for."""
    return max(1.0, load.output_tokens - 1) / speed.accepted


def _better(
    guess: _Guess, speed: Rates, load: Workload, *, step_tokens: float, running: float, work_tokens: float
) -> _Guess:
    """One round of substitution, damped. `work_tokens` of prompts are computed for each request, repeats included."""
    prompt, context = load.input_tokens, load.mean_context_tokens
    others = max(0.0, running - 1)
    decoding_s = _steps(speed, load) * guess.step_s
    alive = guess.first_s + decoding_s
    rate = running / alive
    decoding = max(min(1.0, running), running * decoding_s / alive)
    step = decode(speed, decoding, context)
    plain = step.seconds
    # prompts that arrive within a step share one, as far as the token budget goes; longer ones take several
    chunk = min(step_tokens, max(prompt, prompt * rate * plain))
    prompt_s = (mixed_s(speed, decoding, context, chunk, prompt) - plain) * work_tokens / chunk
    share = min(MOST_PROMPT_SHARE, rate * prompt_s)
    own = max(1.0, prompt / chunk) * plain + prompt_s * prompt / work_tokens
    queue = share / (1 - share) * prompt_s / 2 + plain / 2
    step_s = plain + speed.interference * prompt_s * others * guess.step_s / alive
    first_s = speed.first_s + speed.first * own + min(queue, others * prompt_s)
    return _Guess(
        guess.step_s + DAMPING * (step_s - guess.step_s),
        guess.first_s + DAMPING * (first_s - guess.first_s),
        decoding,
        step,
        prompt_s,
        share,
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
