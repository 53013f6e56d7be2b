"""The whole node worker as its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


class Worker:
    """`python -m workers.node` with the tiny engine, as its own process."""

    def __init__(self, home: Path, url: str) -> None:
        self.home = home
        self.url = url
        self.log = home / "worker.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, engine_python: str = "") -> int:
        env = {
            **os.environ, "HEADWORKS_HOME": str(self.home), "HEADWORKS_NODE_NAME": "bench", "REDIS_URL": self.url,
            "HEADWORKS_ENGINE_PYTHON": engine_python, "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        self.home.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "tests.workers.node.worker_main"]
            self.process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)
        return self.process.pid

    def end(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(30)
        self.process = None
        return code
