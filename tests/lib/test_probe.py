from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from controlplane.lib import probe


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_only_200_counts_as_healthy(port: int) -> None:
    assert probe.answers(port, "/healthz", tls=False)
    assert not probe.answers(port, "/other", tls=False)


def test_a_closed_port_is_not_healthy() -> None:
    assert not probe.answers(1, "/healthz", tls=False)
