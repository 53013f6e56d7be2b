"""What every engine adapter promises, checked on all of them; where Headworks runs the engine, on the real process."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from controlplane.domain.desired import AssignedAccelerator, EngineSpec
from controlplane.domain.errors import RefusedError
from controlplane.domain.observed import EngineFacts
from controlplane.lib.metrics_text import Reader, Wanted
from engine_adapters import registry
from engine_adapters.base import EngineAdapter, LaunchPlace, MetricNames
from engine_adapters.vllm.server.guard import SERVED
from tests.engine_adapters.running import CODE_ROOT, KEY, RunningEngine, wait_for

ADAPTERS = [registry.get(name) for name in registry.names()]
MANAGED = [adapter for adapter in ADAPTERS if adapter.managed]


@pytest.fixture(params=ADAPTERS, ids=lambda adapter: adapter.name)
def adapter(request: pytest.FixtureRequest) -> EngineAdapter:
    found: EngineAdapter = request.param
    return found


@pytest.fixture(params=["simulated", pytest.param("vllm", marks=pytest.mark.engine)])
def engine(request: pytest.FixtureRequest) -> RunningEngine:
    found: RunningEngine = request.getfixturevalue(f"{request.param}_engine")
    return found


def make_spec(adapter: EngineAdapter) -> EngineSpec:
    return EngineSpec(adapter.name, "/models/m", "test-model")


def make_place() -> LaunchPlace:
    card = AssignedAccelerator("c", "cpu", "0")
    return LaunchPlace("r1", "127.0.0.1", 4711, KEY, (card,), "/env/python", "/code", "/work")


def chat(**more: object) -> dict[str, object]:
    message = {"role": "user", "content": "Count to ten."}
    return {"model": "test-model", "messages": [message], "max_tokens": 8, "temperature": 0, **more}


def read_metrics(engine: RunningEngine) -> dict[str, float | None]:
    names = asdict(engine.adapter.metric_names(engine.adapter.read_facts(engine.log_lines()).engine_version))
    roles = ("running", "waiting", "kv_usage", "preemptions", "prompt_tokens", "generation_tokens")
    text = engine.request("GET", "/metrics", key=None).body
    return dict(Reader([Wanted(role, names[role]) for role in roles]).read(text).values)


def generated(engine: RunningEngine) -> float:
    return read_metrics(engine)["generation_tokens"] or 0.0


def test_it_is_found_by_its_name(adapter: EngineAdapter) -> None:
    assert registry.get(adapter.name) is adapter


def test_a_name_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(RefusedError) as refused:
        registry.get("nope")
    assert all(name in refused.value.hint for name in registry.names())


def test_knowing_all_engines_loads_none_of_them() -> None:
    code = "import sys; import engine_adapters.registry; print(*sys.modules)"
    env = {"PYTHONPATH": str(CODE_ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert not {"vllm", "torch", "uvicorn", "django", "numpy"} & set(done.stdout.split())


def test_it_has_the_same_files_as_the_others(adapter: EngineAdapter) -> None:
    folder = CODE_ROOT / "engine_adapters" / adapter.name
    for name in ("adapter.py", "argv.py", "settings.py", "metrics.py", "logs.py"):
        assert (folder / name).is_file(), name


def test_no_settings_at_all_can_be_used(adapter: EngineAdapter) -> None:
    assert adapter.validate({}) == []


def test_its_own_defaults_can_be_used(adapter: EngineAdapter) -> None:
    assert adapter.validate({field.name: field.default for field in adapter.fields()}) == []


def test_its_fields_have_names_of_their_own(adapter: EngineAdapter) -> None:
    names = [field.name for field in adapter.fields()]
    assert len(set(names)) == len(names)


def test_a_setting_it_does_not_have_is_named(adapter: EngineAdapter) -> None:
    assert [problem.field for problem in adapter.validate({"no_such_setting": 1})] == ["no_such_setting"]


def test_its_command_is_a_function_of_spec_and_place(adapter: EngineAdapter) -> None:
    if not adapter.managed:
        with pytest.raises(RefusedError):
            adapter.command(make_spec(adapter), make_place())
        return
    first, second = (adapter.command(make_spec(adapter), make_place()) for _ in range(2))
    assert (first.argv, dict(first.env)) == (second.argv, dict(second.env))
    assert str(make_place().port) in first.argv


@pytest.mark.parametrize("adapter", MANAGED, ids=lambda adapter: adapter.name)
def test_its_secret_is_no_argument(adapter: EngineAdapter) -> None:
    command = adapter.command(make_spec(adapter), make_place())
    assert command.env["HEADWORKS_REPLICA_KEY"] == KEY
    assert not any(KEY in word for word in command.argv)


@pytest.mark.parametrize("version", [None, "0.4.3", "0.10.0", "0.32.0", "nightly"])
def test_its_metric_names_are_names(adapter: EngineAdapter, version: str | None) -> None:
    names = adapter.metric_names(version)
    assert isinstance(names, MetricNames)
    for role, spellings in asdict(names).items():
        assert bool(spellings) == adapter.managed, role
        assert len(set(spellings)) == len(spellings)


def test_its_warm_up_is_a_small_generation(adapter: EngineAdapter) -> None:
    request = adapter.warm_up(make_spec(adapter))
    assert request.path in SERVED
    assert request.body["model"] == "test-model"
    assert request.body["max_tokens"] == 2
    json.dumps(dict(request.body))


def test_it_makes_up_no_facts(adapter: EngineAdapter) -> None:
    assert adapter.read_facts([]) == EngineFacts()


def test_it_explains_any_end(adapter: EngineAdapter) -> None:
    for lines in ([], ["Traceback (most recent call last):", "ValueError: {} %s"]):
        code, sentence, hint = adapter.explain_exit(lines, "exit code 1")
        assert code.isidentifier()
        assert sentence.endswith(".") and hint.endswith(".")


def test_health_needs_no_key(engine: RunningEngine) -> None:
    assert engine.request("GET", engine.adapter.health_path, key=None).status == 200


@pytest.mark.parametrize("path", SERVED)
@pytest.mark.parametrize("key", [None, "hwr-wrong"])
def test_nothing_else_answers_without_the_key(engine: RunningEngine, path: str, key: str | None) -> None:
    answer = engine.request(SERVED[path][0], path, chat(), key=key)
    assert answer.status == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"


def test_a_websocket_is_refused(engine: RunningEngine) -> None:
    connection = http.client.HTTPConnection(engine.place.host, engine.place.port, timeout=10)
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Authorization": f"Bearer {KEY}"}  # fmt: skip
    connection.request("GET", "/v1/realtime", headers=upgrade)
    assert connection.getresponse().status in (403, 404)
    connection.close()


def test_the_model_is_listed_by_its_served_name(engine: RunningEngine) -> None:
    assert [one["id"] for one in engine.request("GET", "/v1/models").json()["data"]] == ["test-model"]


def test_the_warm_up_generates(engine: RunningEngine) -> None:
    request = engine.adapter.warm_up(engine.spec)
    answer = engine.request("POST", request.path, dict(request.body))
    assert answer.status == 200
    assert answer.json()["usage"]["completion_tokens"] == 2


def test_a_chat_is_answered_with_its_usage(engine: RunningEngine) -> None:
    answer = engine.request("POST", "/v1/chat/completions", chat(ignore_eos=True)).json()
    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["completion_tokens"] == 8
    assert answer["usage"]["prompt_tokens"] > 0


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_a_stream_ends_with_its_usage(engine: RunningEngine, path: str) -> None:
    body = chat(ignore_eos=True, stream_options={"include_usage": True}, prompt="Count to ten.")
    if path == "/v1/completions":
        del body["messages"]
    else:
        del body["prompt"]
    events = list(engine.stream(path, body))
    assert events.pop() == b"[DONE]"
    chunks: list[dict[str, Any]] = [json.loads(event) for event in events]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 8
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[-2:-1]] == ["length"]
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_a_wrong_request_is_refused_in_the_shape_of_openai(engine: RunningEngine) -> None:
    for body, status in ((chat(max_tokens=100_000), 400), (chat(model="other"), 404)):
        answer = engine.request("POST", "/v1/chat/completions", body)
        assert (answer.status, "message" in answer.json()["error"]) == (status, True)


def test_a_client_that_leaves_ends_the_work(engine: RunningEngine) -> None:
    wait_for(lambda: read_metrics(engine)["running"] == 0)
    before = generated(engine)
    stream: Iterator[bytes] = engine.stream("/v1/chat/completions", chat(max_tokens=1900, ignore_eos=True))
    next(stream), next(stream), next(stream)
    stream.close()  # type: ignore[attr-defined]
    wait_for(lambda: read_metrics(engine)["running"] == 0)
    assert 0 < generated(engine) - before < 1900


def test_its_metrics_say_what_runs(engine: RunningEngine) -> None:
    values = read_metrics(engine)
    assert None not in values.values()
    names = engine.adapter.metric_names(None)
    wanted = [Wanted("ttft", names.ttft), Wanted("inter_token", names.inter_token), Wanted("e2e", names.e2e)]
    text = engine.request("GET", "/metrics", key=None).body
    assert set(Reader((), wanted).read(text).histograms) == {"ttft", "inter_token", "e2e"}


def test_its_log_tells_the_memory_it_got(engine: RunningEngine) -> None:
    facts = engine.adapter.read_facts([line[:500] for line in engine.log_lines()])
    assert facts.engine_version
    assert facts.weights_bytes and facts.kv_cache_bytes and facts.kv_cache_tokens
    assert facts.kv_block_size_tokens and facts.max_concurrency


def test_the_key_is_neither_in_its_log_nor_in_its_process_list(engine: RunningEngine) -> None:
    assert not any(KEY in line for line in engine.log_lines())
    pids = engine.pids()
    assert engine.process.pid in pids
    for pid in pids:
        assert KEY.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_it_listens_nowhere_but_on_its_own_host(engine: RunningEngine) -> None:
    assert listening_addresses(engine.pids()) == {"127.0.0.1"}


def listening_addresses(pids: list[int]) -> set[str]:
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                inodes.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
            except FileNotFoundError:
                continue
    found = set()
    for line in (
        Path("/proc/net/tcp").read_text().splitlines()[1:] + Path("/proc/net/tcp6").read_text().splitlines()[1:]
    ):
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            address = fields[1].split(":")[0]
            octets = reversed(bytes.fromhex(address))
            found.add(".".join(map(str, octets)) if len(address) == 8 else address)
    return found
