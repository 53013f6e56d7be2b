"""Short HTTP conversations with an engine: does it answer, does it generate, how much runs in it.

Each call opens its own connection and ends within its time-out; the supervisor runs them in helper threads.
"""

from __future__ import annotations

import http.client
import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from controlplane.domain.observed import CACHE_LABELS
from controlplane.lib.metrics_text import labels_of
from engine_adapters.base import MetricNames, WarmUpRequest

HEALTH_TIMEOUT_S = 5.0
METRICS_TIMEOUT_S = 5.0
MOST_REQUESTS = 1_000_000
LONGEST_LABEL = 64


class ProbeError(Exception):
    """The engine did not do what was asked; the text is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Generation:
    """What a warm-up generation gave."""

    output_tokens: int
    took_s: float


def is_healthy(url: str, path: str, timeout_s: float = HEALTH_TIMEOUT_S) -> bool:
    """Returns whether the engine's health path answers 200."""
    try:
        status, _ = _request("GET", url + path, timeout_s)
    except ProbeError:
        return False
    return status == http.client.OK


def generate(url: str, request: WarmUpRequest, key: str, timeout_s: float) -> Generation:
    """Runs one real generation; raises ProbeError unless it gave tokens."""
    begun = time.monotonic()
    body = json.dumps(dict(request.body)).encode()
    status, answer = _request("POST", url + request.path, timeout_s, body, key)
    took_s = time.monotonic() - begun
    if status != http.client.OK:
        raise ProbeError(f"The warm-up generation was answered with {status}: {_shorten(answer)}")
    tokens = count_output_tokens(answer)
    if tokens == 0:
        raise ProbeError(f"The warm-up generation gave no token: {_shorten(answer)}")
    return Generation(tokens, took_s)


def count_output_tokens(body: bytes) -> int:
    """Returns how many tokens an answer in OpenAI's shape says it generated; embeddings count as one each."""
    try:
        answer = json.loads(body)
    except ValueError:
        return 0
    if not isinstance(answer, dict):
        return 0
    usage = answer.get("usage")
    if isinstance(usage, dict) and isinstance(usage.get("completion_tokens"), int) and usage["completion_tokens"] > 0:
        return int(usage["completion_tokens"])
    data = answer.get("data")
    if isinstance(data, list):
        return sum(1 for one in data if isinstance(one, dict) and one.get("embedding"))
    return 0


def count_in_flight(url: str, names: MetricNames, timeout_s: float = METRICS_TIMEOUT_S) -> int | None:
    """Returns the requests that run or wait in the engine, None when it does not say."""
    lines = _metrics(url, timeout_s)
    running, waiting = _gauge(lines, names.running), _gauge(lines, names.waiting)
    if running is None:
        return None  # how many wait is no answer to how many run
    together = running + (waiting or 0.0)
    return int(together) if 0 <= together <= MOST_REQUESTS else None  # NaN, infinity and nonsense are no answer


def count_progress(url: str, names: MetricNames, timeout_s: float = METRICS_TIMEOUT_S) -> float | None:
    """Returns the sum of the engine's counters of tokens and steps, None when it does not say."""
    lines = _metrics(url, timeout_s)
    counters = (names.prompt_tokens, names.generation_tokens, names.steps)
    found = [value for value in (_gauge(lines, one) for one in counters) if value is not None]
    return sum(found) if found and all(math.isfinite(value) for value in found) else None


def cache_config(url: str, names: MetricNames, timeout_s: float = METRICS_TIMEOUT_S) -> dict[str, str]:
    """Returns what an engine's metrics tell about its KV cache: the labels that are known, as far as it has them."""
    labels = labels_of(_metrics_body(url, timeout_s), names.cache_config)
    told = {name: labels[name][:LONGEST_LABEL] for name in CACHE_LABELS if labels.get(name)}
    return {name: text for name, text in told.items() if text.isprintable()}


def _metrics(url: str, timeout_s: float) -> list[str]:
    """Returns the lines of an engine's metrics; none when it gives no usable answer."""
    return _metrics_body(url, timeout_s).decode("utf-8", errors="replace").splitlines()


def _metrics_body(url: str, timeout_s: float) -> bytes:
    try:
        status, body = _request("GET", url + "/metrics", timeout_s)
    except ProbeError:
        return b""
    return body if status == http.client.OK else b""


def _gauge(lines: Sequence[str], names: Iterable[str]) -> float | None:
    for name in names:
        values = [line.rsplit(" ", 1)[1] for line in lines if line.startswith((name + "{", name + " "))]
        if values:
            try:
                return sum(float(value) for value in values)
            except ValueError:
                return None
    return None


def _request(method: str, url: str, timeout_s: float, body: bytes | None = None, key: str = "") -> tuple[int, bytes]:
    parts = urlsplit(url)
    make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = make(parts.hostname or "", parts.port, timeout=timeout_s)
    headers = {"Connection": "close", "Content-Type": "application/json"} if body else {"Connection": "close"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    try:
        connection.request(method, parts.path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise ProbeError(f"{method} {parts.path} failed: {error or type(error).__name__}") from error
    finally:
        connection.close()


def _shorten(body: bytes, most: int = 300) -> str:
    text = " ".join(body.decode("utf-8", errors="replace").split())
    return text if len(text) <= most else text[:most] + " …"
