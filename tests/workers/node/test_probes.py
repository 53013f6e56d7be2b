from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from engine_adapters.base import MetricNames, WarmUpRequest
from workers.node import probes

NAMES = MetricNames(("vllm:num_requests_running", "old_running"), ("vllm:num_requests_waiting",), (), (), (), ())
REQUEST = WarmUpRequest("/v1/completions", {"prompt": "x"})


class Answer:
    """An HTTP server with one answer for everything."""

    def __init__(self) -> None:
        self.status, self.body, self.seen = 200, b"", list[str]()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.seen.append(f"{self.path} {self.headers.get('Authorization')}")
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def answer() -> Iterator[Answer]:
    one = Answer()
    thread = threading.Thread(target=one.server.serve_forever)
    thread.start()
    yield one
    one.server.shutdown()
    one.server.server_close()
    thread.join()


def test_healthy_is_200_and_nothing_else(answer: Answer) -> None:
    assert probes.is_healthy(answer.url, "/health")
    answer.status = 503
    assert not probes.is_healthy(answer.url, "/health")
    assert not probes.is_healthy("http://127.0.0.1:1", "/health")


def test_a_generation_counts_its_tokens_and_shows_its_key(answer: Answer) -> None:
    answer.body = b'{"usage": {"completion_tokens": 2}}'
    assert probes.generate(answer.url, REQUEST, "hwr-key", 5).output_tokens == 2
    assert answer.seen == ["/v1/completions Bearer hwr-key"]


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (500, b'{"error": "EngineDeadError"}', r"answered with 500: .*EngineDeadError"),
        (200, b'{"usage": {"completion_tokens": 0}}', "gave no token"),
        (200, b"not json", "gave no token"),
        (200, b"[]", "gave no token"),
    ],
)
def test_anything_but_tokens_is_a_failure(answer: Answer, status: int, body: bytes, text: str) -> None:
    answer.status, answer.body = status, body
    with pytest.raises(probes.ProbeError, match=text):
        probes.generate(answer.url, REQUEST, "k", 5)


def test_progress_is_the_sum_of_the_counters_that_are_there(answer: Answer) -> None:
    names = MetricNames((), (), (), (), ("prompt",), ("generated",), steps=("steps_count",))
    answer.body = b'prompt 3\ngenerated{a="x"} 4\ngenerated{a="y"} 5\nsteps_count 2\n'
    assert probes.count_progress(answer.url, names) == 14
    answer.body = b"generated 4\n"
    assert probes.count_progress(answer.url, names) == 4
    for nothing in (b"", b"generated NaN\n", b"generated x\n", b"other 3\n"):
        answer.body = nothing
        assert probes.count_progress(answer.url, names) is None
    answer.status = 503
    assert probes.count_progress(answer.url, names) is None
    assert probes.count_progress("http://127.0.0.1:1", names) is None


def test_the_cache_is_told_by_the_labels_that_are_known(answer: Answer) -> None:
    names = MetricNames((), (), (), (), (), (), cache_config=("ray_vllm:cache_config_info", "vllm:cache_config_info"))
    labels = 'num_gpu_blocks="364",odd="1",block_size="12\\n8",cache_dtype="' + "f" * 200 + '"'
    answer.body = f"# TYPE x gauge\nvllm:cache_config_info{{{labels}}} 1.0\n".encode()
    found = probes.cache_config(answer.url, names)
    assert found["num_gpu_blocks"] == "364"
    assert "odd" not in found
    assert len(found["cache_dtype"]) == probes.LONGEST_LABEL
    answer.body = b"vllm:cache_config_info 1.0\n"
    assert probes.cache_config(answer.url, names) == {}
    answer.status = 500
    assert probes.cache_config(answer.url, names) == {}
    assert probes.cache_config("http://127.0.0.1:1", names) == {}


def test_nobody_there_is_a_failure() -> None:
    with pytest.raises(probes.ProbeError, match=r"POST /v1/completions failed: .*refused"):
        probes.generate("http://127.0.0.1:1", REQUEST, "k", 5)


def test_an_embedding_is_a_generation() -> None:
    assert probes.count_output_tokens(b'{"data": [{"embedding": [0.1]}], "usage": {"completion_tokens": 0}}') == 1


def test_requests_in_flight_are_summed_over_engines(answer: Answer) -> None:
    answer.body = (
        b"# HELP vllm:num_requests_running x\n"
        b'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="1"} 1.0\n'
        b'vllm:num_requests_waiting{engine="0"} 4.0\nvllm:num_requests_waiting_by_reason{reason="x"} 9.0\n'
    )
    assert probes.count_in_flight(answer.url, NAMES) == 7


def test_an_older_spelling_is_found(answer: Answer) -> None:
    answer.body = b"old_running 3\n"
    assert probes.count_in_flight(answer.url, NAMES) == 3


def test_what_the_engine_does_not_say_is_unknown_and_not_zero(answer: Answer) -> None:
    assert probes.count_in_flight(answer.url, NAMES) is None
    answer.body = b'vllm:num_requests_running{engine="0"} many\n'
    assert probes.count_in_flight(answer.url, NAMES) is None
    for nonsense in (b"NaN", b"+Inf", b"1e300", b"-3"):
        answer.body = b"old_running " + nonsense + b"\n"
        assert probes.count_in_flight(answer.url, NAMES) is None
    answer.status = 500
    assert probes.count_in_flight(answer.url, NAMES) is None
    assert probes.count_in_flight("http://127.0.0.1:1", NAMES) is None
