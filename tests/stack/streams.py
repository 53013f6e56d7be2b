"""Streams and plain requests that run while something is killed, and what became of them."""

from __future__ import annotations

import http.client
import json
import threading
from dataclasses import dataclass, field
from typing import Any

from tests.stack.stack_process import RunningStack


def is_openai_error(body: object) -> bool:
    """Returns whether an answer is an error in OpenAI's shape, with a message."""
    error = body.get("error") if isinstance(body, dict) else None
    return isinstance(error, dict) and bool(error.get("message")) and {"type", "param", "code"} <= error.keys()


@dataclass
class Stream:
    """One streamed chat in a thread: how many events came, and how it ended."""

    stack: RunningStack
    max_tokens: int = 300
    events: int = 0
    done: bool = False  # "data: [DONE]" came
    error: dict[str, Any] | None = None  # an event with an error, as it came
    broken: str = ""  # how the connection broke
    status: int = 0
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        body = {**question(self.stack, self.max_tokens), "stream": True}
        headers = {
            "Authorization": f"Bearer {self.stack.first_run['gateway_key']}",
            "Content-Type": "application/json",
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.stack.gateway_port, timeout=120)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
            answer = connection.getresponse()
            self.status = answer.status
            for raw in answer:
                self._take(raw.decode().strip())
        except (OSError, http.client.HTTPException) as error:
            self.broken = repr(error)
        finally:
            connection.close()

    def _take(self, line: str) -> None:
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            self.done = True
        elif data.startswith('{"error"'):
            self.error = json.loads(data)
        elif data:
            self.events += 1

    def has_begun(self) -> bool:
        """Returns whether tokens are flowing."""
        return self.events >= 5

    def ended(self, limit_s: float) -> bool:
        """Waits for the end; False when the stream hangs."""
        self.thread.join(limit_s)
        return not self.thread.is_alive()

    def is_whole(self) -> bool:
        """Returns whether everything that was asked for has come."""
        return self.done and not self.error and not self.broken


def question(stack: RunningStack, max_tokens: int) -> dict[str, Any]:
    """Returns a request that takes as long as `max_tokens` tells."""
    return {
        "model": stack.first_run["model"],
        "max_tokens": max_tokens,
        "ignore_eos": True,
        "messages": [{"role": "user", "content": "Count from one to five hundred."}],
    }


class Plain:
    """One plain request in a thread and what it got."""

    def __init__(self, stack: RunningStack, max_tokens: int = 300) -> None:
        self.status = -1
        self.answer: dict[str, Any] = {}

        def run() -> None:
            self.status, self.answer = stack.post("/v1/chat/completions", question(stack, max_tokens))

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def ended(self, limit_s: float) -> bool:
        """Waits for the answer; False when the request hangs."""
        self._thread.join(limit_s)
        return not self._thread.is_alive()


class Load:
    """Plain short requests, one after the other, until it is stopped; counts what they got."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self.statuses: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.statuses.append(self.stack.ask(max_tokens=4)[0])

    def stop(self) -> list[int]:
        """Ends the load and returns the statuses in order; raises AssertionError when a request hangs."""
        self._stop.set()
        self._thread.join(70)
        assert not self._thread.is_alive(), "a request hangs"
        return self.statuses
