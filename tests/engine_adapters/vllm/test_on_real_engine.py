from __future__ import annotations

import re

import pytest

from engine_adapters.vllm.server.guard import OPEN, SERVED
from tests.engine_adapters.running import RunningEngine

pytestmark = pytest.mark.engine

_ROUTE = re.compile(r"Route: (\S+), Methods: (.+)$")


@pytest.fixture
def routes(vllm_engine: RunningEngine) -> list[tuple[str, str]]:
    """Every (method, path) that this very engine says it has."""
    found = []
    for line in vllm_engine.log_lines():
        match = _ROUTE.search(line)
        if match:
            path = re.sub(r"\{[^}]*\}", "some-id", match[1])
            found += [(method.strip(), path) for method in match[2].split(",")]
    assert len(found) > 30, "the engine did not log its routes"
    return found


def test_no_route_answers_without_the_key_but_the_node_s_probes(
    vllm_engine: RunningEngine, routes: list[tuple[str, str]]
) -> None:
    for method, path in routes:
        status = vllm_engine.request(method, path, {} if method == "POST" else None, key=None).status
        assert status == (200 if method in OPEN.get(path, ()) else 401), (method, path)


def test_with_the_key_only_what_is_served_answers(vllm_engine: RunningEngine, routes: list[tuple[str, str]]) -> None:
    for method, path in routes:
        if method in SERVED.get(path, ()) or method in OPEN.get(path, ()):
            continue
        status = vllm_engine.request(method, path, {} if method == "POST" else None).status
        assert status in (404, 405), (method, path)


@pytest.mark.parametrize(
    "path", ["/invocations", "/tokenize", "/detokenize", "/generative_scoring", "/scale_elastic_ep", "/ping",
             "/openapi.json", "/docs", "/version", "/load", "/v1/responses", "/v1/messages", "/inference/v1/generate",
             "/metrics/", "//v1/completions", "/v1/completions/", "/v1/chat/completions/batch"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
def test_the_doors_of_the_engine_that_its_own_key_leaves_open_are_shut(
    vllm_engine: RunningEngine, method: str, path: str
) -> None:
    body = {"model": "test-model", "prompt": "Hello", "max_tokens": 1}
    assert vllm_engine.request(method, path, body).status == 404
    assert vllm_engine.request(method, path, body, key=None).status == 401


def test_what_it_holds_is_bounded_by_itself_as_its_version_knows_how(vllm_engine: RunningEngine) -> None:
    assert "--max-num-queued-reqs" in vllm_engine.argv
    assert any("max_num_queued_reqs" in line for line in vllm_engine.log_lines()), "the engine says with what it began"


def test_everything_that_is_served_is_there(routes: list[tuple[str, str]]) -> None:
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/models", "/health"):
        assert any(path == route for _, route in routes), path


def test_health_and_scrapes_leave_no_line_in_the_log(vllm_engine: RunningEngine) -> None:
    before = len(vllm_engine.log_lines())
    for path in ("/health", "/metrics"):
        vllm_engine.request("GET", path, key=None)
    added = vllm_engine.log_lines()[before:]
    assert not any("GET /" in line for line in added)


def test_it_runs_on_the_core_it_was_given(vllm_engine: RunningEngine) -> None:
    core = vllm_engine.place.accelerators[0].address
    assert any(f"core ids=[{core}]" in line for line in vllm_engine.log_lines())
