"""What README shows is run as it stands there."""

from __future__ import annotations

import http.server
import json
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
ANSWER = {
    "id": "1", "object": "chat.completion", "created": 1, "model": "smollm2",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Paris."}}],
}  # fmt: skip


class Gateway(http.server.BaseHTTPRequestHandler):
    """Answers one question of one model, to one key."""

    def do_POST(self) -> None:
        asked: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = (self.path, self.headers["Authorization"], asked["model"], asked["temperature"])
        assert known == ("/v1/chat/completions", "Bearer hw-key", "smollm2", 0)
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def gateway() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_the_lines_of_python_answer_paris(gateway: str, tmp_path: Path) -> None:
    (tmp_path / ".headworks").mkdir()
    first_run = {"gateway_url": gateway, "gateway_key": "hw-key"}
    (tmp_path / ".headworks" / "first-run.json").write_text(json.dumps(first_run))
    found = re.search(r"^    import json, openai\n(?:    .*\n)+", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert found is not None
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(found[0])], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "Paris.\n", done.stderr
