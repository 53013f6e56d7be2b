from __future__ import annotations

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.fleet.models import Accelerator, ModelFiles, Node
from controlplane.journal.models import Event
from tests.api.calling import error
from tests.api.world import make_ready_replica
from tests.deployments.making import make_deployment, make_node, make_pool

pytestmark = [pytest.mark.django_db, pytest.mark.services]
NODE = "/api/v1/nodes/n1/"


def test_nodes_are_listed_and_filtered(viewer: APIClient) -> None:
    make_node("n1")
    make_node("n2", lost=True, pool=make_pool("batch"))

    def names(**query: str) -> list[str]:
        return [row["name"] for row in viewer.get("/api/v1/nodes/", query).json()["results"]]

    assert names() == ["n1", "n2"]
    assert names(lost="true") == ["n2"]
    assert names(pool="default") == ["n1"]
    assert names(cordoned="true") == []


def test_a_node_is_cordoned_with_a_reason_and_freed_again(operator: APIClient) -> None:
    make_node()
    done = operator.post(f"{NODE}cordon/", {"reason": "new fan"}).json()
    assert (done["cordoned"], done["cordon_reason"], done["version"]) == (True, "new fan", 2)
    assert operator.post(f"{NODE}cordon/", {"reason": "new fan"}).json()["version"] == 2
    assert operator.post(f"{NODE}uncordon/").json()["cordoned"] is False
    assert Event.objects.filter(object_kind="node", object_id="n1", actor="operator-1/test").count() == 2


def test_a_node_is_drained_and_moved(operator: APIClient) -> None:
    make_node()
    make_pool("batch")
    assert operator.post(f"{NODE}drain/", {}).json()["draining"] is True
    assert operator.post(f"{NODE}move/", {"pool": "batch"}).json()["pool"] == "batch"
    assert "pool" in error(operator.post(f"{NODE}move/", {"pool": "nowhere"}))["details"]["fields"]


def test_an_action_on_an_old_version_is_412(operator: APIClient) -> None:
    make_node()
    old = operator.get(NODE).headers["ETag"]
    operator.post(f"{NODE}cordon/")
    assert operator.post(f"{NODE}uncordon/", headers={"If-Match": old}).status_code == 412
    assert operator.post(f"{NODE}uncordon/", headers={"If-Match": "*"}).status_code == 200


def test_a_node_says_which_models_files_it_has(viewer: APIClient) -> None:
    node = make_node(files_looked_at=timezone.now())
    reason = "2 of its 3 weight files are missing or not whole"
    part = {"location": "/models/a", "state": "partly", "size_bytes": 90, "missing": 2, "reason": reason}
    none = {"location": "Qwen/Qwen3-8B", "state": "absent", "size_bytes": 0, "missing": 0, "reason": ""}
    for one in (part, none):
        ModelFiles.objects.create(node=node, **one)
    looked_at = viewer.get(NODE).json()["files_looked_at"]
    rows = viewer.get(f"{NODE}model-files/").json()["results"]
    assert looked_at and rows == [{**part, "looked_at": looked_at}, {**none, "looked_at": looked_at}]
    assert len(viewer.get(f"{NODE}model-files/", {"state": "absent"}).json()["results"]) == 1
    assert viewer.get("/api/v1/nodes/none/model-files/").status_code == 404


def test_accelerators_say_who_has_them(operator: APIClient) -> None:
    replica = make_ready_replica(make_deployment(), make_node())
    rows = operator.get(f"{NODE}accelerators/").json()["results"]
    assert [row["held_by"] for row in rows] == [replica.pk, None]
    free = operator.get(f"{NODE}accelerators/", {"free": "true"}).json()["results"]
    assert [row["uuid"] for row in free] == ["n1-1"]


def test_one_accelerator_is_cordoned(operator: APIClient) -> None:
    make_node()
    assert operator.post(f"{NODE}accelerators/n1-0/cordon/").json()["cordoned"] is True
    assert Accelerator.objects.get(uuid="n1-0").cordoned
    assert operator.post(f"{NODE}accelerators/n1-0/uncordon/").json()["cordoned"] is False
    assert operator.post(f"{NODE}accelerators/n1-9/cordon/").status_code == 404


def test_put_of_a_pool_twice_changes_nothing(operator: APIClient) -> None:
    first = operator.put("/api/v1/pools/batch/", {"purpose": "offline", "hot": False})
    rows = Event.objects.count()
    second = operator.put("/api/v1/pools/batch/", {"purpose": "offline", "hot": False})
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.headers["X-Headworks-Changed"] == "false"
    assert second.headers["ETag"] == first.headers["ETag"]
    assert Event.objects.count() == rows


def test_a_pool_in_use_is_not_removed(operator: APIClient) -> None:
    make_node()
    assert error(operator.delete("/api/v1/pools/default/"))["code"] == "pool_in_use"
    Node.objects.update(pool=make_pool("other"))
    assert operator.delete("/api/v1/pools/default/").status_code == 204


def test_a_wrong_field_of_a_pool_is_named(operator: APIClient) -> None:
    fields = error(operator.put("/api/v1/pools/batch/", {"purpose": "fast", "hot": "yes"}))["details"]["fields"]
    assert set(fields) == {"purpose", "hot"}


def test_a_lost_node_is_forgotten_and_one_that_reports_is_not(operator: APIClient, viewer: APIClient) -> None:
    make_node("n1")
    make_node("n2", lost=True)
    assert viewer.post("/api/v1/nodes/n2/forget/").status_code == 403
    assert error(operator.post("/api/v1/nodes/n1/forget/"))["code"] == "node_reports"
    assert operator.post("/api/v1/nodes/n2/forget/").json() == {"node": "n2", "replicas": 0}
    assert operator.get("/api/v1/nodes/n2/").status_code == 404


def test_a_node_is_labelled_and_its_cards_priced(operator: APIClient) -> None:
    make_node()
    assert operator.post(f"{NODE}label/", {"labels": {"rack": "r1"}}).json()["labels"] == {"rack": "r1"}
    done = operator.post(f"{NODE}price/", {"card_price_per_hour": 2.5}).json()
    assert (done["card_price_per_hour"], done["version"]) == (2.5, 3)
    assert operator.post(f"{NODE}price/", {"card_price_per_hour": None}).json()["card_price_per_hour"] is None
    for wrong in ({}, {"card_price_per_hour": "2.5"}, {"card_price_per_hour": -1}, {"card_price_per_hour": True}):
        assert "card_price_per_hour" in error(operator.post(f"{NODE}price/", wrong))["details"]["fields"]
