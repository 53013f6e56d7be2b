from __future__ import annotations

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.deployments.models import LedgerRow, PassedOver, Replica
from controlplane.fleet.models import Accelerator, Node, Reservation
from controlplane.fleet.services import reservations
from controlplane.journal.models import Event
from tests.api.calling import error
from tests.deployments.making import make_deployment, make_node, make_replica

pytestmark = [pytest.mark.django_db, pytest.mark.services]

GIB = 2**30


def make_placed() -> Replica:
    node = make_node(cards=1, kind="gpu")
    Accelerator.objects.update(memory_total_bytes=80 * GIB)
    row = make_replica(make_deployment(), node=node)
    reservations.take(node="n1", uuids=["n1-0"], owner_kind="replica", owner_id=row.pk, memory_bytes=40 * GIB)
    Accelerator.objects.update(observed={"memory_used_bytes": 45 * GIB})
    return row


def test_the_memory_of_a_node_adds_up(viewer: APIClient) -> None:
    row = make_placed()
    (card,) = viewer.get("/api/v1/nodes/n1/memory/").json()["accelerators"]
    assert card["holders"] == [
        {
            "owner_kind": "replica", "owner_id": row.pk, "reserved_bytes": 40 * GIB, "releasing": False,
            "not_back_since": None, "not_back_bytes": None,
        }
    ]  # fmt: skip
    assert card["reserved_bytes"] + card["foreign_bytes"] + card["free_bytes"] == card["total_bytes"] == 80 * GIB
    assert (card["foreign_bytes"], card["used_bytes"]) == (5 * GIB, 45 * GIB)
    assert error(viewer.get("/api/v1/nodes/n9/memory/"))["code"] == "no_such_node"


def test_memory_that_is_not_back_is_shown_and_released_by_a_person(operator: APIClient) -> None:
    row = make_placed()
    url, body = "/api/v1/nodes/n1/accelerators/n1-0/release/", {"owner_id": row.pk}
    assert error(operator.post(url, body))["code"] == "reservation_in_use"
    since = timezone.now()
    Reservation.objects.update(releasing_since=since, not_back_since=since, not_back_bytes=30 * GIB)
    (card,) = operator.get("/api/v1/nodes/n1/memory/").json()["accelerators"]
    (holder,) = card["holders"]
    assert (holder["releasing"], holder["not_back_bytes"]) == (True, 30 * GIB) and holder["not_back_since"]
    assert card["reserved_bytes"] + card["foreign_bytes"] + card["free_bytes"] == card["total_bytes"]
    after = operator.post(url, body).json()
    assert after["holders"] == []
    assert (after["reserved_bytes"], after["foreign_bytes"], after["free_bytes"]) == (0, 45 * GIB, 35 * GIB)
    assert Event.objects.get(verb="node.memory_released").numbers["missing_bytes"] == 30 * GIB
    assert error(operator.post(url, body))["code"] == "no_such_reservation"
    assert error(operator.post(url.replace("n1-0", "n1-9"), body))["code"] == "no_such_reservation"
    assert error(operator.post(url.replace("n1/", "n9/"), body))["code"] == "no_such_node"


def test_a_replica_tells_what_its_placement_passed_over(viewer: APIClient) -> None:
    row = make_placed()
    url = f"/api/v1/replicas/{row.pk}/candidates/"
    assert viewer.get(url).json() == {"replica": row.pk, "rejected": []}
    names = [f"n{number}" for number in range(2, 1000)]
    cards = {"0-2,5": ["n3"], "7": ["n4", "n5"]}
    kept = [{"reason": "is cordoned", "nodes": names}, {"reason": "taken", "cards": cards, "more_cards": 9}]
    PassedOver.objects.create(replica=row, rejected=kept)
    nodes, single = viewer.get(url).json()["rejected"]
    nothing = {"nodes": [], "cards": [], "more_nodes": 0, "more_cards": 0}
    assert nodes == {**nothing, "reason": "is cordoned", "count": 998, "nodes": names}
    together = [{"indexes": [0, 1, 2, 5], "nodes": ["n3"]}, {"indexes": [7], "nodes": ["n4", "n5"]}]
    assert single == {**nothing, "reason": "taken", "count": 15, "cards": together, "more_cards": 9}


def test_a_ledger_is_read_and_listed(viewer: APIClient) -> None:
    row = make_placed()
    assert error(viewer.get(f"/api/v1/replicas/{row.pk}/ledger/"))["code"] == "no_such_ledger"
    LedgerRow.objects.create(replica=row.pk, deployment="chat", predicted={"kv_cache_tokens": 5}, family="llama")
    assert viewer.get(f"/api/v1/replicas/{row.pk}/ledger/").json()["predicted"] == {"kv_cache_tokens": 5}
    for query, found in (("deployment=chat", 1), ("family=qwen2", 0), ("measured=false", 1), ("measured=true", 0)):
        assert viewer.get(f"/api/v1/ledgers/?{query}").json()["count"] == found


def test_labels_of_a_node_are_set_as_a_whole(operator: APIClient) -> None:
    make_node()
    assert operator.post("/api/v1/nodes/n1/label/", {"labels": {"rack": "r1"}}).json()["labels"] == {"rack": "r1"}
    assert Node.objects.get().labels == {"rack": "r1"}
    for odd in ({"labels": {"rack": 1}}, {"labels": ["rack"]}, {"labels": {"Rack!": "r"}}, {}):
        assert "labels" in error(operator.post("/api/v1/nodes/n1/label/", odd))["details"]["fields"]


def test_labelling_a_node_names_who_loses_it_and_may_be_asked_before(operator: APIClient) -> None:
    node = make_node(labels={"rack": "r1"})
    chat, search = make_deployment(node_labels={"rack": "r1"}), make_deployment("search", node_labels={"rack": "r2"})
    make_deployment("anywhere")
    Replica.objects.filter(deployment=chat).delete()
    make_replica(chat, node=node)
    told = {"losing": [chat.name], "gaining": [search.name], "running": 1}
    before = operator.post("/api/v1/nodes/n1/label/", {"labels": {"rack": "r2"}, "preview": True})
    assert before.json()["affected"] == told and Node.objects.get().labels == {"rack": "r1"}
    after = operator.post("/api/v1/nodes/n1/label/", {"labels": {"rack": "r2"}})
    assert after.json()["affected"] == told and after.json()["labels"] == {"rack": "r2"}
    assert after.headers["ETag"] != before.headers["ETag"]
    again = operator.post("/api/v1/nodes/n1/label/", {"labels": {"rack": "r2"}}).json()
    assert again["affected"] == {"losing": [], "gaining": [], "running": 0}


def test_a_preview_tells_the_memory_or_why_it_is_not_known(operator: APIClient) -> None:
    make_placed()
    body = {"variant": "smollm2/bf16", "settings": {"max_model_len": 2048}}
    (ledger,) = operator.post("/api/v1/engines/vllm/preview/", body).json()["ledgers"]
    assert ledger["accelerator"] == "card"
    assert ledger["why_unknown"]
    assert ledger["advice"] == []
    odd = {**body, "settings": {"kv_cache_memory_share": 2}}
    assert (
        "settings.kv_cache_memory_share"
        in error(operator.post("/api/v1/engines/vllm/preview/", odd))["details"]["fields"]
    )


def test_labels_of_a_deployment_stay_when_they_are_left_out(operator: APIClient) -> None:
    make_deployment(node_labels={"rack": "r1"})
    body = {"engine": "vllm", "variant": "smollm2/bf16", "replicas": 2}
    assert operator.put("/api/v1/deployments/chat/", body).json()["node_labels"] == {"rack": "r1"}
    assert operator.put("/api/v1/deployments/chat/", {**body, "node_labels": {}}).json()["node_labels"] == {}
