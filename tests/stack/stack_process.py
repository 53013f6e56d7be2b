"""A whole Headworks started with `make up`, in a data folder and on ports of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane.embedded import children, engines, proc, stack, state
from controlplane.embedded.engines import Engine
from controlplane.embedded.layout import ROOT, Layout
from controlplane.embedded.proc import ProcessId
from controlplane.env import cache_folder
from tests.stack import process_tree

UP_LIMIT_S = 600
# what the tests' own services have set, and would lead the stack to them; and what a make around this one has
_NOT_HANDED_ON = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment() -> dict[str, str]:
    kept = ("HEADWORKS_CACHE", "HEADWORKS_ENGINE_BUILD", "HEADWORKS_ENGINE_PIP_ARGS")
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _NOT_HANDED_ON and (name in kept or not name.startswith("HEADWORKS_"))
    }


@dataclass
class RunningStack:
    """What tests do with a stack. Every wait has a limit; every process is found through /proc."""

    home: Path
    console_port: int = field(default_factory=free_port)
    gateway_port: int = field(default_factory=free_port)
    more: dict[str, str] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        return Layout(ROOT, self.home, cache_folder())

    @property
    def environ(self) -> dict[str, str]:
        return {
            **_environment(),
            "HEADWORKS_HOME": str(self.home),
            "HEADWORKS_CONSOLE_PORT": str(self.console_port),
            "HEADWORKS_GATEWAY_PORT": str(self.gateway_port),
            **self.more,
        }

    @property
    def first_run(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.home / "first-run.json").read_text(encoding="utf-8"))
        return found

    def make(self, *arguments: str, limit_s: float = UP_LIMIT_S) -> subprocess.CompletedProcess[str]:
        """Runs make and returns what it printed (files, so that what it leaves running holds no pipe)."""
        output = self.home.parent / "make.out"
        with open(output, "wb") as file:
            done = subprocess.run(
                ["make", *arguments], cwd=ROOT, env=self.environ, stdin=subprocess.DEVNULL,
                stdout=file, stderr=subprocess.STDOUT, timeout=limit_s, check=False,
            )  # fmt: skip
        return subprocess.CompletedProcess(done.args, done.returncode, output.read_text(encoding="utf-8"), "")

    def begin(self, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
        """Begins to run make in a session of its own; returns its process and the file with what it prints."""
        output = self.home.parent / f"make-{len(list(self.home.parent.glob('make-*')))}.out"
        with open(output, "wb") as file:
            begun = subprocess.Popen(
                ["make", *arguments], cwd=ROOT, env=self.environ, stdin=subprocess.DEVNULL,
                stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        return begun, output

    def up(self) -> str:
        """Starts everything and returns what was printed."""
        done = self.make("up", "DETACH=1")
        assert done.returncode == 0, done.stdout
        return done.stdout

    def up_twice_at_once(self) -> None:
        """Starts everything by two `make up` at the same time; both are content once the one that won is ready."""
        both = [self.begin("up", "DETACH=1") for _ in range(2)]
        results = [begun.wait(UP_LIMIT_S) for begun, _ in both]
        printed = [output.read_text(encoding="utf-8") for _, output in both]
        assert results == [0, 0], printed
        assert any("already running" in text for text in printed), printed

    def down(self) -> str:
        """Ends everything and returns what was printed."""
        done = self.make("down", limit_s=200)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def launcher(self) -> ProcessId | None:
        """The launcher, None when none runs."""
        found = state.read(self.layout.state)
        return found.process if found else None

    def process(self, name: str) -> ProcessId | None:
        """The process of a service (postgres, valkey, gateway, console, controller, worker, beat, node, collector)."""
        found = children.remembered(self.home / "children.json").get(name)
        return found if found is not None and proc.is_alive(found) else None

    def kill(self, name: str) -> ProcessId:
        """Kills the process of a service with SIGKILL and returns what it was."""
        found = self.process(name)
        assert found is not None, f"{name} does not run"
        os.kill(found.pid, signal.SIGKILL)
        return found

    def engines(self) -> list[Engine]:
        """The engines that run."""
        return engines.living(self.home)

    def replica(self) -> dict[str, Any]:
        """The one replica that has not ended, as REST tells it."""
        status, page = self.rest("/replicas")
        assert status == 200, page
        (found,) = [one for one in page["results"] if one["state"] != "stopped"]
        replica: dict[str, Any] = found
        return replica

    def is_well(self) -> bool:
        """Returns whether every process runs, REST and gateway answer and the replica is ready."""
        if not all(self.process(name) for name in children.remembered(self.home / "children.json")):
            return False
        try:
            return self.rest("/deployments")[0] == 200 and self.replica()["state"] == "ready"
        except OSError:
            return False

    def orphans(self, before: Iterable[ProcessId]) -> list[str]:
        """What lived before, still lives, and belongs to no process of the stack any more, in words."""
        now = self.everything()
        return [stack.describe(process) for process in before if proc.is_alive(process) and process not in now]

    def everything(self) -> set[ProcessId]:
        """Every process of this stack, whoever has started it."""
        return process_tree.everything(self.layout, self.launcher())

    def leftovers(self, before: Iterable[ProcessId] = ()) -> list[str]:
        """What runs of this stack, in words: as it has noted, by a walk over /proc, and of those that ran before."""
        found = self.everything() | {process for process in before if proc.is_alive(process)}
        return [*map(stack.describe, found), *process_tree.naming(self.home)]

    def post(self, path: str, body: object, key: str | None = None) -> tuple[int, dict[str, Any]]:
        """Posts JSON to the gateway and returns status and answer; status 0 when there is none."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.gateway_port}{path}",
            data=json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {key or self.first_run['gateway_key']}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)
        except OSError:
            return 0, {}

    def rest(self, path: str, method: str = "GET", body: object = None) -> tuple[int, Any]:
        """Calls the REST interface with the token of the first run."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.console_port}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.first_run['api_token']}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def ask(self, question: str = "What is the capital of France?", max_tokens: int = 30) -> tuple[int, str]:
        """Asks the model through the gateway and returns status and answer."""
        body = {
            "model": self.first_run["model"],
            "temperature": 0,
            "max_tokens": max_tokens,
            "messages": [{"role": "user", "content": question}],
        }
        status, answer = self.post("/v1/chat/completions", body)
        return status, answer["choices"][0]["message"]["content"] if status == 200 else json.dumps(answer)

    def wait(self, condition: Callable[[], bool], limit_s: float = 60) -> bool:
        """Waits until the condition holds; False after `limit_s`."""
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.3)
        return True
