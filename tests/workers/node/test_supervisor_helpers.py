"""The generation that a replica has to give before it is ready, and what is asked once after it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from engine_adapters.base import WarmUpRequest
from workers.node import probes, supervisor_helpers

REQUEST = WarmUpRequest("/v1/completions", {"max_tokens": 2}, afterwards={"max_tokens": 2, "logprobs": 1})


class Engine:
    """Generates two tokens, and refuses whoever wants log probabilities when it is told to."""

    def __init__(self) -> None:
        self.seen: list[dict[str, int]] = []
        self.refuses = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.seen.append(asked)
                body = b'{"usage": {"completion_tokens": 2}}'
                self.send_response(400 if outer.refuses and "logprobs" in asked else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def engine() -> Iterator[Engine]:
    one = Engine()
    thread = threading.Thread(target=one.server.serve_forever)
    thread.start()
    yield one
    one.server.shutdown()
    one.server.server_close()
    thread.join()


@pytest.mark.parametrize("refuses", [False, True])
def test_what_an_engine_compiles_for_log_probabilities_is_there_before_it_is_ready(
    engine: Engine, refuses: bool
) -> None:
    """And one that gives none is ready all the same."""
    engine.refuses = refuses
    done = supervisor_helpers.generation(engine.url, REQUEST, "hwr-key", 5.0, is_first=True)()
    assert done.output_tokens == 2
    assert engine.seen == [REQUEST.body, REQUEST.afterwards]


def test_a_later_look_whether_it_still_generates_asks_once(engine: Engine) -> None:
    supervisor_helpers.generation(engine.url, REQUEST, "hwr-key", 5.0)()
    assert engine.seen == [REQUEST.body]


def test_an_engine_that_does_not_generate_is_asked_for_nothing_more() -> None:
    with pytest.raises(probes.ProbeError):
        supervisor_helpers.generation("http://127.0.0.1:1", REQUEST, "hwr-key", 1.0, is_first=True)()
