from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
import redis.asyncio
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.domain.samples import SamplePart
from controlplane.lib import sample_store
from controlplane.traffic.models import UsageMinute
from tests.api.calling import error
from tests.api.world import make_ready_replica
from tests.deployments.making import make_deployment, make_node

pytestmark = [pytest.mark.django_db, pytest.mark.services]


def write(valkey_server: str, subject: str, **values: float) -> None:
    now = time.time()
    part = SamplePart(subject=subject, source="gateway:1", at=now, values=values)
    with redis.Redis.from_url(valkey_server) as client:
        pipeline = client.pipeline()
        sample_store.queue_parts(pipeline, [part], now)
        pipeline.execute()


def make_usage(minute: datetime, **fields: Any) -> None:
    UsageMinute.objects.create(minute=minute, key_id="1", deployment="chat", **fields)


def test_the_newest_sample_of_each_subject_or_null(viewer: APIClient, valkey_server: str) -> None:
    write(valkey_server, "deployment:chat", running=3)
    answer = viewer.get("/api/v1/telemetry/newest/", {"subjects": "deployment:chat,node:n1"})
    assert answer.status_code == 200, answer.content
    results = answer.json()["results"]
    assert (results["deployment:chat"]["running"], results["deployment:chat"]["waiting"]) == (3, None)
    assert results["node:n1"] is None


@pytest.mark.parametrize("subjects", ["", ",", "chat", "tenant:demo", "deployment:", ",".join(["node:a"] * 201)])
def test_a_subject_that_is_none_is_refused(viewer: APIClient, valkey_server: str, subjects: str) -> None:
    answer = viewer.get("/api/v1/telemetry/newest/", {"subjects": subjects})
    assert "subjects" in error(answer)["details"]["fields"]


def test_history_has_one_sample_a_second_and_gaps_are_null(viewer: APIClient, valkey_server: str) -> None:
    write(valkey_server, "deployment:chat", running=3)
    answer = viewer.get("/api/v1/telemetry/history/", {"subject": "deployment:chat", "window_s": "60"}).json()
    assert [sample["running"] for sample in answer["samples"]].count(3) >= 1
    empty = viewer.get("/api/v1/telemetry/history/", {"subject": "node:n1"}).json()
    assert empty == {"subject": "node:n1", "step_s": 1, "samples": []}
    hour = viewer.get("/api/v1/telemetry/history/", {"subject": "node:n1", "window_s": "86400"}).json()
    assert (hour["step_s"], len(hour["samples"]), hour["samples"][0]["running"]) == (60, 1440, None)


def test_the_pulse_counts_replicas_and_says_null_where_nobody_reports(viewer: APIClient, valkey_server: str) -> None:
    make_ready_replica(make_deployment("chat", replicas=2), make_node())
    make_deployment("idle", desired_state="stopped", replicas=3)
    write(valkey_server, "deployment:chat", tokens_per_s=120.5)
    pulse = viewer.get("/api/v1/status/").json()
    assert (pulse["replicas_ready"], pulse["replicas_wanted"], pulse["nodes"]) == (1, 2, 1)
    assert (pulse["tokens_per_s"], pulse["waiting"]) == (120.5, None)
    assert (pulse["deployments"]["degraded"], pulse["deployments"]["stopped"]) == (1, 1)


def test_usage_is_summed_up_by_hour_and_day(viewer: APIClient) -> None:
    day = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    for minute, tenant, tokens in ((1, "a", 10), (2, "a", 20), (61, "a", 40), (62, "b", 80)):
        UsageMinute.objects.create(
            minute=day + timedelta(minutes=minute),
            tenant=tenant,
            key_id="1",
            deployment="chat",
            completion_tokens=tokens,
        )

    def sums(**query: str) -> list[tuple[str | None, int]]:
        answer = viewer.get("/api/v1/usage/", query)
        assert answer.status_code == 200, answer.content
        return [(row["tenant"], row["completion_tokens"]) for row in answer.json()["results"]]

    assert sums(by="tenant") == [("a", 40), ("b", 80), ("a", 30)]
    assert sums(step="day", by="tenant") == [("a", 70), ("b", 80)]
    assert sums(step="day", by="deployment") == [(None, 150)]
    assert sums(step="day", tenant="a") == [("a", 70)]
    assert sums(until=day.isoformat()) == []
    assert "by" in error(viewer.get("/api/v1/usage/", {"by": "colour"}))["details"]["fields"]


def test_usage_pages(viewer: APIClient) -> None:
    day = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    for hour in range(5):
        UsageMinute.objects.create(
            minute=day + timedelta(hours=hour), tenant="a", key_id="1", deployment="c", requests=hour
        )
    first = viewer.get("/api/v1/usage/", {"limit": "2"}).json()
    second = viewer.get(first["next"]).json()
    assert [row["requests"] for row in first["results"] + second["results"]] == [4, 3, 2, 1]
    assert first["count"] == 5


def test_engines_name_their_settings(viewer: APIClient) -> None:
    engines = {row["name"]: row for row in viewer.get("/api/v1/engines/").json()["results"]}
    assert set(engines) == {"vllm", "simulated", "external"}
    seats = next(field for field in engines["vllm"]["settings"] if field["name"] == "max_num_seqs")
    assert (seats["kind"], seats["minimum"], seats["unit"]) == ("int", 1, "requests")
    assert viewer.get("/api/v1/engines/external/").json()["managed"] is False


def test_a_preview_is_the_command_line_and_changes_nothing(viewer: APIClient) -> None:
    make_deployment()
    body = {"variant": "smollm2/bf16", "settings": {"max_num_seqs": 7}}
    argv = viewer.post("/api/v1/engines/vllm/preview/", body).json()["argv"]
    assert argv[argv.index("--max-num-seqs") + 1] == "7"
    wrong = viewer.post("/api/v1/engines/vllm/preview/", {**body, "settings": {"max_num_seqs": "x"}})
    assert "settings.max_num_seqs" in error(wrong)["details"]["fields"]
    assert viewer.post("/api/v1/engines/sglang/preview/", body).status_code == 404


def test_without_valkey_the_pulse_and_the_log_answer(operator: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "unix:///nowhere/v.sock")
    replica = make_ready_replica(make_deployment("chat", replicas=1), make_node())
    pulse = operator.get("/api/v1/status/").json()
    assert (pulse["replicas_ready"], pulse["tokens_per_s"]) == (1, None)
    assert operator.get(f"/api/v1/replicas/{replica.pk}/log/").json()["source"] == "kept"
    answer = operator.get("/api/v1/telemetry/newest/", {"subjects": "deployment:chat"})
    assert (answer.status_code, error(answer)["code"]) == (503, "unavailable")


@pytest.mark.usefixtures("valkey_server")
def test_the_pulse_tells_what_a_person_has_to_look_at(viewer: APIClient) -> None:
    make_node("n1", lost=True)
    problems = viewer.get("/api/v1/status/").json()["problems"]
    assert [(one["node"], one["code"]) for one in problems] == [("", "controller"), ("n1", "node_lost")]
    assert "No controller leads" in problems[0]["message"]
    assert all(one["hint"] for one in problems)
