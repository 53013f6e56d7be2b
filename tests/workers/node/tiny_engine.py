"""A tiny real engine for tests: a process with vLLM's HTTP surface and a few ways to misbehave.

Run as `python tiny_engine.py '{"port": 20001, …}'`; see `TinyAdapter` for the settings.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OPTIONS: dict[str, Any] = json.loads(sys.argv[1])
KEY = os.environ["HEADWORKS_REPLICA_KEY"]
LOCK = threading.Lock()
RUNNING = 0
GENERATED = threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer(200 if time.time() >= HEALTHY_AT else 503, b"")
        elif self.path == "/metrics":
            text = f'vllm:num_requests_running{{engine="0"}} {RUNNING}.0\nvllm:num_requests_waiting{{engine="0"}} 0.0\n'
            text += 'vllm:cache_config_info{block_size="128",num_gpu_blocks="364"} 1.0\n'
            self.answer(200, text.encode())
        else:
            self.answer(404, b"")

    def do_POST(self) -> None:
        global RUNNING
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            self.answer(401, b"")
            return
        if OPTIONS.get("dies_on_generation"):
            print("RuntimeError: the engine core died on its first token", flush=True)
            os._exit(3)
        if OPTIONS.get("fails_generation"):
            self.answer(500, b'{"error": {"message": "no kernel for this card"}}')
            return
        if OPTIONS.get("hangs_on_generation"):
            time.sleep(3600)
        with LOCK:
            RUNNING += 1
        try:
            self.generate(body)
        finally:
            GENERATED.set()
            with LOCK:
                RUNNING -= 1

    def generate(self, body: dict[str, Any]) -> None:
        tokens = int(body.get("max_tokens", 1))
        if not body.get("stream"):
            choices = [{"text": " word" * tokens}]
            self.answer(200, json.dumps({"choices": choices, "usage": {"completion_tokens": tokens}}).encode())
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for _ in range(tokens):
            self.wfile.write(b'data: {"choices": [{"text": " word"}]}\n\n')
            self.wfile.flush()
            time.sleep(float(OPTIONS.get("token_s", 0.05)))
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def close_port_later() -> None:
    """Stops listening a moment after the first generation, and lives on."""
    while not GENERATED.wait(1.0):
        pass
    time.sleep(0.5)
    server.socket.close()
    while True:
        time.sleep(1)


def spawn_daemon() -> None:
    """A child in a session of its own, as a daemon that somebody's library starts."""
    if os.fork() == 0:
        os.setsid()
        while True:
            time.sleep(1)


def spawn_child() -> None:
    """A child in the same session that ignores SIGTERM and outlives its parent, as a stuck worker process would."""
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1)


print("tiny engine starts", flush=True)
if OPTIONS.get("prints_key"):
    print(f"ValueError: nobody knows the key {KEY}", flush=True)
    sys.exit(8)
if OPTIONS.get("dies_at_start"):
    print("ValueError: no such model", flush=True)
    sys.exit(7)
if OPTIONS.get("ignores_term"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if OPTIONS.get("spawns_child"):
    spawn_child()
if OPTIONS.get("spawns_daemon"):
    spawn_daemon()
HEALTHY_AT = time.time() + float(OPTIONS.get("start_s", 0.0))
ThreadingHTTPServer.daemon_threads = True
server = ThreadingHTTPServer(("127.0.0.1", OPTIONS["port"]), Handler)
print("tiny engine listens", flush=True)
if OPTIONS.get("closes_port"):
    threading.Thread(target=close_port_later, daemon=True).start()
server.serve_forever()
