"""What the charts are given: fields beside each other, and histories of any moment."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from django.test import Client

from controlplane.domain.samples import SAMPLE_FIELDS
from tests.console import feeding, making
from tests.console.calling import make_client
from tests.console.test_browser_pages import in_a_thread

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]
CHAT = "deployment:llama-70b"


def charts_of(client: Client, path: str) -> list[dict[str, Any]]:
    text = client.get(path).content.decode()
    found = [json.loads(one) for one in re.findall(r'<script type="application/json">(.*?)</script>', text)]
    return [one for one in found if "series" in one]


def test_what_the_engine_says_itself_stands_beside_what_the_gateway_measured() -> None:
    making.make_fleet()
    charts = charts_of(make_client("viewer"), "/replicas/7f3ak2m9q0xd/")
    lines = {chart["key"]: {line["field"]: line for line in chart["series"]} for chart in charts}
    assert list(lines["ttft"]) == ["ttft_p50", "ttft_p95", "ttft_p99", "engine_ttft_p50", "engine_ttft_p95"]
    assert list(lines["tpot"]) == ["tpot_p50", "tpot_p95", "tpot_p99", "engine_itl_p50", "engine_itl_p95"]
    engine = lines["ttft"]["engine_ttft_p95"]
    assert (engine["label"], engine["colour"], engine["thin"], engine["dash"]) == (
        "engine p95",
        "engine",
        True,
        "dashed",
    )


def test_latencies_of_tokens_are_said_to_be_of_streams_and_plain_answers_to_count_when_they_end() -> None:
    making.make_fleet()
    client = make_client("viewer")
    for path in ("/deployments/llama-70b/", "/deployments/gpt-oss-bridge/", "/replicas/7f3ak2m9q0xd/"):
        notes = {chart["key"]: chart["note"] for chart in charts_of(client, path)}
        assert (notes["ttft"], notes["tpot"]) == ("of streams", "of streams"), path
        assert notes["tokens"] == "plain answers as they end", path
    page = client.get("/deployments/llama-70b/").content.decode()
    tiles = re.findall(r'<div class="tile"[^>]*><dt>(T[TP][FO]T p95)</dt>.*?</div>', page)
    assert tiles == ["TTFT p95", "TPOT p95"] and page.count("of streams, last 60 s") == 2
    assert "those of a plain answer in the second in which it ends" in page
    for path, heads in (("/deployments/", 1), ("/traffic/objectives/", 2)):
        assert client.get(path).content.decode().count('title="Of streams, last 60 s"') == heads, path


def test_every_line_is_a_field_that_samples_have() -> None:
    making.make_fleet()
    client = make_client("viewer")
    for path in ("/deployments/llama-70b/", "/replicas/7f3ak2m9q0xd/", "/nodes/gpu-01/"):
        fields = {line["field"] for chart in charts_of(client, path) for line in chart["series"]}
        assert fields and fields <= set(SAMPLE_FIELDS), path


def test_a_history_goes_back_beyond_the_ring_to_what_is_kept_longer() -> None:
    in_a_thread(feeding.write_past([CHAT], 120, gap=(0, 0)))
    client, now = make_client("viewer"), time.time()

    def history(**query: str) -> dict[str, Any]:
        answer = client.get("/telemetry/history/", {"subject": CHAT, **query})
        assert answer.status_code == 200
        return dict(answer.json())

    newest = history(window="900")
    assert newest["step_s"] == 1 and len(newest["samples"]) <= 130
    older = history(window="300", end=f"{now - 1800:.0f}")
    assert older["step_s"] == 10 and older["samples"][-1]["t"] <= now - 1790
    assert sum(sample["kv_usage"] is not None for sample in older["samples"]) > 100
    assert older["samples"][-1]["engine_ttft_p95"] is not None
    assert history(window="300", end=f"{now - 5 * 86400:.0f}")["step_s"] == 60


@pytest.mark.parametrize("end", ["x", "-1", "nan", "inf", "9" * 5000])
def test_an_end_that_is_no_moment_is_refused(end: str) -> None:
    answer = make_client("viewer").get("/telemetry/history/", {"subject": CHAT, "window": "300", "end": end})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid")
