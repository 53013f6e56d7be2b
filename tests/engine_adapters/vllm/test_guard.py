from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine_adapters.vllm.server.guard import OPEN, SERVED, Guard, decide

CODE_ROOT = Path(__file__).resolve().parents[3]


async def silent_engine(scope: Any, receive: Any, send: Any) -> None:
    """An engine that answers nothing."""


async def call(method: str, path: str, *headers: tuple[bytes, bytes], kind: str = "http") -> tuple[list[Any], bool]:
    """Sends one request through a guard; returns the messages it sent and whether the engine was reached."""
    sent: list[Any] = []
    reached = False

    async def engine(scope: Any, receive: Any, send: Any) -> None:
        nonlocal reached
        reached = True

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    guard = Guard(engine, "secret")
    await guard({"type": kind, "method": method, "path": path, "headers": list(headers)}, receive, send)
    return sent, reached


KEY = (b"authorization", b"Bearer secret")


@pytest.mark.parametrize(("path", "methods"), SERVED.items())
async def test_what_is_served_passes_with_the_key(path: str, methods: tuple[str, ...]) -> None:
    assert (await call(methods[0], path, KEY))[1]


@pytest.mark.parametrize("path", OPEN)
async def test_the_node_s_probes_pass_without_a_key(path: str) -> None:
    assert (await call("GET", path))[1]


@pytest.mark.parametrize(
    "path",
    [
        "/invocations",
        "/tokenize",
        "/generative_scoring",
        "/scale_elastic_ep",
        "/ping",
        "/openapi.json",
        "/v1/completions/",
        "//v1/completions",
        "/V1/completions",
        "/v1/completions/render",
        "/health/",
        "/metrics/x",
        "",
    ],
)
async def test_every_other_path_is_refused_with_and_without_the_key(path: str) -> None:
    with_key, reached = await call("POST", path, KEY)
    assert (with_key[0]["status"], reached) == (404, False)
    without, reached = await call("POST", path)
    assert (without[0]["status"], reached) == (401, False)


@pytest.mark.parametrize(
    "value",
    [b"Bearer wrong", b"Bearer ", b"", b"secret", b"Basic secret", b"Bearer secret2", b"Bearer secre", b"\xff\xfe"],
)
async def test_another_key_is_none(value: bytes) -> None:
    sent, reached = await call("POST", "/v1/completions", (b"authorization", value))
    assert (sent[0]["status"], reached) == (401, False)


async def test_only_the_first_authorization_counts() -> None:
    sent, reached = await call("POST", "/v1/completions", (b"authorization", b"Bearer x"), KEY)
    assert (sent[0]["status"], reached) == (401, False)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("OPTIONS", "/v1/completions"),
        ("GET", "/v1/completions"),
        ("POST", "/v1/models"),
        ("POST", "/metrics"),
        ("DELETE", "/health"),
    ],
)
async def test_other_methods_are_refused(method: str, path: str) -> None:
    sent, reached = await call(method, path, KEY)
    assert (sent[0]["status"], reached) == (405, False)


async def test_a_refusal_has_the_shape_of_openai_and_no_key() -> None:
    sent, _ = await call("POST", "/v1/completions")
    body = json.loads(sent[1]["body"])
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert b"secret" not in sent[1]["body"]
    assert (b"www-authenticate", b"Bearer") in sent[0]["headers"]


async def test_websockets_are_closed_whatever_they_bring() -> None:
    sent, reached = await call("GET", "/v1/realtime", KEY, kind="websocket")
    assert (sent[0]["type"], reached) == ("websocket.close", False)


def test_without_a_key_it_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWORKS_REPLICA_KEY", raising=False)
    with pytest.raises(RuntimeError, match="HEADWORKS_REPLICA_KEY"):
        Guard(silent_engine)


def test_a_decision_needs_no_application() -> None:
    assert decide("GET", "/health", False) is None
    assert decide("POST", "/v1/completions", True) is None


def test_it_imports_nothing_but_the_standard_library() -> None:
    code = (
        "import sys\nimport engine_adapters.vllm.server.guard\n"
        "print([name for name in sys.modules if name.split('.')[0] not in sys.stdlib_module_names "
        "and not name.startswith(('__main__', 'engine_adapters'))])\n"
        "print(sorted(name for name in sys.modules if name.startswith('engine_adapters')))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd="/", env={"PYTHONPATH": str(CODE_ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    foreign, own = done.stdout.splitlines()
    assert foreign == "[]"
    assert eval(own) == [
        "engine_adapters",
        "engine_adapters.vllm",
        "engine_adapters.vllm.server",
        "engine_adapters.vllm.server.guard",
    ]
