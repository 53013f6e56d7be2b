from __future__ import annotations

import pytest
import redis
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.lib import keys
from tests.api.world import make_ready_replica, make_transition
from tests.deployments.making import make_deployment, make_node, make_replica

pytestmark = [pytest.mark.django_db, pytest.mark.services]
URL = "/api/v1/replicas/"


def test_replicas_are_listed_and_filtered(viewer: APIClient) -> None:
    ready = make_ready_replica(make_deployment(), make_node())
    pending = make_replica(make_deployment("code"))
    ended = make_replica(make_deployment("code"), state="stopped", ended_at=timezone.now())

    def ids(**query: str) -> set[str]:
        return {row["id"] for row in viewer.get(URL, query).json()["results"]}

    assert ids() == {ready.pk, pending.pk}
    assert ids(node="n1") == {ready.pk}
    assert ids(deployment="code") == {pending.pk}
    assert ids(deployment="code", include_ended="true") == {pending.pk, ended.pk}
    assert ids(state="ready") == {ready.pk}


def test_a_replica_shows_its_reason_and_its_node(viewer: APIClient) -> None:
    replica = make_replica(
        make_deployment(), node=make_node(lost=True), state="failed", reason_code="oom", reason_message="No memory."
    )
    shown = viewer.get(f"{URL}{replica.pk}/").json()
    assert shown["reason"] == {"code": "oom", "message": "No memory.", "hint": ""}
    assert (shown["node"], shown["node_lost"], shown["deployment"], shown["revision"]) == ("n1", True, "chat", 1)


def test_a_replica_without_a_node_is_shown(viewer: APIClient) -> None:
    shown = viewer.get(f"{URL}{make_replica(make_deployment()).pk}/").json()
    assert (shown["node"], shown["node_lost"]) == (None, False)


def test_the_history_of_a_replica_is_in_order(viewer: APIClient) -> None:
    replica = make_replica(make_deployment())
    make_transition(replica, 1)
    make_transition(replica, 2)
    assert viewer.get(f"{URL}{replica.pk}/transitions/").json()["count"] == 2


def test_the_last_lines_of_an_engine_are_for_operators(viewer: APIClient, operator: APIClient) -> None:
    replica = make_replica(make_deployment(), log_tail=["out of memory"])
    make_transition(replica, 1)
    replica.transitions.update(log_tail=["out of memory"])
    url = f"{URL}{replica.pk}/transitions/"
    assert [row["log_tail"] for row in viewer.get(url).json()["results"]] == [None]
    assert [row["log_tail"] for row in operator.get(url).json()["results"]] == [["out of memory"]]
    assert viewer.get(f"{URL}{replica.pk}/log/").status_code == 403
    assert "out of memory" not in viewer.get(f"{URL}{replica.pk}/").content.decode()


def test_the_log_is_live_or_what_was_kept(operator: APIClient, valkey_server: str) -> None:
    replica = make_replica(make_deployment(), log_tail=["out of memory"], log_path="/x/engine.log")
    kept = operator.get(f"{URL}{replica.pk}/log/").json()
    assert (kept["source"], kept["lines"]) == ("kept", [{"n": None, "line": "out of memory"}])
    with redis.Redis.from_url(valkey_server) as client:
        for n in range(5):
            client.xadd(keys.engine_log(replica.pk), {"n": n, "line": f"line {n}"})
    live = operator.get(f"{URL}{replica.pk}/log/", {"lines": 2}).json()
    assert (live["source"], [line["n"] for line in live["lines"]]) == ("live", [3, 4])


def test_a_replica_is_drained_with_a_limit(operator: APIClient) -> None:
    replica = make_ready_replica(make_deployment(), make_node())
    answer = operator.post(f"{URL}{replica.pk}/drain/", {"drain_timeout_s": 5})
    assert answer.status_code == 200, answer.content
    assert answer.json()["goal"] == "stop"
    replica.refresh_from_db()
    assert replica.drain_timeout_s == 5


def test_a_replica_is_restarted_at_once(operator: APIClient) -> None:
    replica = make_ready_replica(make_deployment(), make_node())
    assert operator.post(f"{URL}{replica.pk}/restart/").json()["goal"] == "stop"
    replica.refresh_from_db()
    assert replica.drain_timeout_s == 0
