from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.domain.desired import SettingValue
from controlplane.lib.metrics_text import labels_of
from engine_adapters import registry
from tests.engine_adapters.running import CODE_ROOT, RunningEngine, free_port, start_simulated, wait_for

MODULE = [sys.executable, "-m", "engine_adapters.simulated.server"]


def make_config(path: Path, ports: list[int]) -> None:
    entries = [
        {"port": port, "served_model_name": f"m{port}", "key": "k", "settings": {"start_s": 0}} for port in ports
    ]
    path.write_text(json.dumps({"replicas": entries}))
    path.chmod(0o600)


def run_server(*arguments: str, key: str | None = "k") -> subprocess.CompletedProcess[str]:
    env = {"PYTHONPATH": str(CODE_ROOT)} | ({"HEADWORKS_REPLICA_KEY": key} if key else {})
    return subprocess.run([*MODULE, *arguments], env=env, capture_output=True, text=True, timeout=20, check=False)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Any]:
    engines: list[RunningEngine] = []

    def make(**settings: SettingValue) -> RunningEngine:
        engines.append(start_simulated(tmp_path, **settings))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def completion(**more: object) -> dict[str, object]:
    return {"model": "test-model", "prompt": "Hello there, engine.", "max_tokens": 5, **more}


def test_an_answer_without_a_limit_ends_by_itself(simulated_engine: RunningEngine) -> None:
    body = completion()
    del body["max_tokens"]
    answer = simulated_engine.request("POST", "/v1/completions", body).json()
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == 128


@pytest.mark.parametrize("prompt", ["text", ["text"], [1, 2, 3]])
def test_a_prompt_is_a_text_or_tokens(simulated_engine: RunningEngine, prompt: object) -> None:
    assert simulated_engine.request("POST", "/v1/completions", completion(prompt=prompt)).status == 200


@pytest.mark.parametrize(
    "body",
    [completion(prompt=3), completion(n=2), completion(max_tokens=0), completion(max_tokens="5"), [1], "x", None],
)
def test_a_request_that_is_none_is_refused(simulated_engine: RunningEngine, body: object) -> None:
    assert simulated_engine.request("POST", "/v1/completions", body).status == 400


def test_parts_of_a_message_are_counted(simulated_engine: RunningEngine) -> None:
    parts = [{"type": "text", "text": "x" * 400}, {"type": "text", "text": "y" * 400}]
    body = {"messages": [{"role": "user", "content": parts}], "max_tokens": 1}
    answer = simulated_engine.request("POST", "/v1/chat/completions", body).json()
    assert answer["usage"]["prompt_tokens"] == 204


def test_tokens_can_be_sent_several_an_event(made: Any) -> None:
    engine = made(stream_interval=4)
    events = list(engine.stream("/v1/completions", completion(max_tokens=17)))
    assert 4 < len(events) < 12


def test_its_info_names_the_cache(simulated_engine: RunningEngine) -> None:
    text = simulated_engine.request("GET", "/metrics", key=None).body
    labels = labels_of(text, ["vllm:cache_config_info"])
    assert int(labels["num_gpu_blocks"]) * int(labels["block_size"]) == int(labels["kv_cache_size_tokens"])


def test_more_than_it_has_seats_for_waits_and_is_served(made: Any) -> None:
    engine = made(max_num_seqs=1)
    streams = [engine.stream("/v1/completions", completion(max_tokens=200)) for _ in range(3)]
    for stream in streams:
        next(stream)
    assert all(list(stream)[-1] == b"[DONE]" for stream in streams)


def test_one_that_dies_on_its_first_generation_answers_health_before(made: Any) -> None:
    engine = made(dies_on_first_generation=True)
    assert engine.request("GET", "/health", key=None).status == 200
    with pytest.raises(OSError):
        engine.request("POST", "/v1/completions", completion())
    assert engine.process.wait(10) == 1
    assert engine.adapter.explain_exit(engine.log_lines(), "exit code 1")[0] == "died_on_generation"


def test_sigterm_ends_it_at_once_even_with_a_stream_open(made: Any) -> None:
    engine = made()
    stream = engine.stream("/v1/completions", completion(max_tokens=8000))
    next(stream)
    engine.process.terminate()
    assert engine.process.wait(10) == 0


def test_sigterm_ends_it_while_it_still_starts() -> None:
    env = {"PYTHONPATH": str(CODE_ROOT), "HEADWORKS_REPLICA_KEY": "k", "PYTHONUNBUFFERED": "1"}
    command = [*MODULE, "--port", str(free_port()), "--start-s", "3000"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait(10) == 0


def test_without_a_key_it_does_not_start() -> None:
    done = run_server("--port", str(free_port()), key=None)
    assert done.returncode == 1
    assert "HEADWORKS_REPLICA_KEY is not set" in done.stderr


def test_a_model_that_does_not_fit_ends_with_the_sentence_of_vllm() -> None:
    done = run_server("--port", str(free_port()), "--parameters-billion", "70", "--memory-gb", "80")
    code, _, _ = registry.get("simulated").explain_exit(done.stderr.splitlines(), "exit code 1")
    assert (done.returncode, code) == (1, "no_memory_for_kv")


def test_a_context_beyond_the_cache_ends_with_the_length_that_fits() -> None:
    done = run_server("--port", str(free_port()), "--memory-gb", "24", "--max-model-len", "100000")
    code, sentence, hint = registry.get("simulated").explain_exit(done.stderr.splitlines(), "exit code 1")
    assert (done.returncode, code) == (1, "context_too_long_for_kv")
    assert "100000" in sentence and "max_model_len" in hint


def test_a_port_in_use_is_told(simulated_engine: RunningEngine) -> None:
    done = run_server("--port", str(simulated_engine.place.port), "--start-s", "0")
    assert done.returncode == 1
    assert simulated_engine.adapter.explain_exit(done.stderr.splitlines(), "exit code 1")[0] == "port_in_use"


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    make_config(tmp_path / "fleet.json", [free_port()])
    (tmp_path / "fleet.json").chmod(0o644)
    assert "chmod 600" in run_server("--config", str(tmp_path / "fleet.json")).stderr


def test_one_process_serves_many_replicas_and_follows_its_file(tmp_path: Path) -> None:
    def status(port: int) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/v1/models", headers={"authorization": "Bearer k"})
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    ports, config = [free_port() for _ in range(3)], tmp_path / "fleet.json"
    make_config(config, ports[:2])
    env = {**os.environ, "PYTHONPATH": str(CODE_ROOT)}
    with subprocess.Popen([*MODULE, "--config", str(config)], env=env, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: [status(port) for port in ports] == [200, 200, 0])
            make_config(config, ports[1:])
            process.send_signal(signal.SIGHUP)
            wait_for(lambda: [status(port) for port in ports] == [0, 200, 200])
            config.write_text("{")
            process.send_signal(signal.SIGHUP)
            assert [status(port) for port in ports] == [0, 200, 200]
        finally:
            process.terminate()
        assert process.wait(10) == 0
