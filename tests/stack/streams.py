"""Streams and plain requests that run while something is killed, and what became of them."""

from __future__ import annotations

import http.client
import json
import threading
from dataclasses import dataclass, field

from tests.stack.stack_process import RunningStack


@dataclass
class Stream:
    """One streamed chat in a thread: how many events came, and how it ended."""

    stack: RunningStack
    max_tokens: int = 400
    events: int = 0
    done: bool = False  # "data: [DONE]" came
    error: str = ""  # the text of an error event, or of an exception
    status: int = 0
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        body = {
            "model": self.stack.first_run["model"],
            "stream": True,
            "max_tokens": self.max_tokens,
            "ignore_eos": True,
            "messages": [{"role": "user", "content": "Count from one to five hundred."}],
        }
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
            self.error = self.error or repr(error)
        finally:
            connection.close()

    def _take(self, line: str) -> None:
        if line == "data: [DONE]":
            self.done = True
        elif line.startswith('data: {"error"') or line.startswith('{"error"'):
            self.error = line
        elif line.startswith("data:"):
            self.events += 1

    def has_begun(self) -> bool:
        """Returns whether tokens are flowing."""
        return self.events >= 5

    def ended(self, limit_s: float) -> bool:
        """Waits for the end; False when the stream hangs."""
        self.thread.join(limit_s)
        return not self.thread.is_alive()


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
