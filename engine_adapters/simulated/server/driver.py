"""Drives one simulated engine in an event loop: turns its results into streams of tokens.

A timer is set only while a step is under way, so an idle engine costs nothing. Steps end at the time the model says,
even if the loop gets there late: a busy machine then sends tokens in larger pieces, not slower.
"""

from __future__ import annotations

import asyncio

from controlplane.domain.simulated_engine import (
    Abort,
    Event,
    Finished,
    Rejected,
    SimulatedEngine,
    StepEnded,
    StepStarted,
    Submit,
    Token,
)
from controlplane.domain.simulated_timing import Profile
from engine_adapters.simulated.server.exposition import Recorder


class TokenStream:
    """The tokens of one request: how many are there, and whether it ended."""

    __slots__ = ("_taken", "_wake", "done", "interval", "rejected", "tokens")

    def __init__(self, interval: int) -> None:
        self.tokens = 0
        self.done = False
        self.rejected = ""
        self.interval = interval
        self._taken = 0
        self._wake = asyncio.Event()

    async def take(self) -> int:
        """Waits for more and returns how many tokens have come since the last call; 0 = ended."""
        while True:
            new = self.tokens - self._taken
            if new and (self.done or new >= self.interval or self._taken == 0):
                self._taken = self.tokens
                return new
            if self.done:
                return 0
            self._wake.clear()
            await self._wake.wait()

    async def finish(self) -> int:
        """Waits for the end and returns the number of all tokens."""
        while not self.done:
            self._wake.clear()
            await self._wake.wait()
        return self.tokens

    def wake(self) -> None:
        self._wake.set()


class Driver:
    """One engine with its clock."""

    def __init__(self, profile: Profile, stream_interval: int) -> None:
        self.engine = SimulatedEngine(profile)
        self.recorder = Recorder()
        self._interval = stream_interval
        self._streams: dict[str, TokenStream] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def submit(self, request_id: str, prompt_tokens: int, output_tokens: int) -> TokenStream:
        """Hands a request to the engine; a stream that is `done` at once was rejected."""
        stream = self._streams[request_id] = TokenStream(self._interval)
        self._handle(Submit(request_id, prompt_tokens, output_tokens), self._loop.time())
        return stream

    def abort(self, request_id: str) -> None:
        """Takes a request out of the engine, if it is still there."""
        stream = self._streams.pop(request_id, None)
        if stream is None:
            return
        stream.done = True
        stream.wake()
        self._handle(Abort(request_id), self._loop.time())

    def close(self) -> None:
        """Stops the clock and ends all streams."""
        if self._timer is not None:
            self._timer.cancel()
        for request_id in list(self._streams):
            stream = self._streams.pop(request_id)
            stream.done = True
            stream.wake()

    def _end_step(self, ends_at: float) -> None:
        self._timer = None
        self._handle(StepEnded(), ends_at)

    def _handle(self, event: Event, now: float) -> None:
        for result in self.engine.handle(event, now):
            if isinstance(result, Token):
                self._on_token(result)
            elif isinstance(result, StepStarted):
                self._timer = self._loop.call_at(result.ends_at, self._end_step, result.ends_at)
            elif isinstance(result, Finished):
                self._on_finished(result)
            elif isinstance(result, Rejected):
                self._end(result.request_id, result.reason)

    def _on_token(self, token: Token) -> None:
        histogram = self.recorder.first_token if token.first else self.recorder.token_gap
        histogram.observe(token.since_s)
        stream = self._streams[token.request_id]
        stream.tokens += 1
        if stream.tokens == 1 or stream.tokens % stream.interval == 0:
            stream.wake()

    def _on_finished(self, finished: Finished) -> None:
        self.recorder.whole.observe(finished.total_s)
        self.recorder.queued.observe(finished.queued_s)
        self._end(finished.request_id, "")

    def _end(self, request_id: str, rejected: str) -> None:
        stream = self._streams.pop(request_id)
        stream.rejected = rejected
        stream.done = True
        stream.wake()
