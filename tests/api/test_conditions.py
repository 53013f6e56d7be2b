"""Every operation that says it takes `If-Match` refuses an old version; every GET that says so answers an ETag."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from rest_framework.test import APIClient

from controlplane.accounts.models import ApiKey, ApiToken
from controlplane.catalog.models import Model
from controlplane.deployments.models import Deployment
from controlplane.fleet.models import Accelerator, Node, Pool
from controlplane.fleet.services import nodes
from controlplane.journal.services import record
from controlplane.journal.services.record import SYSTEM
from tests.api.calling import error, make_client
from tests.api.world import arguments_for, make_world
from tests.deployments.making import ADA, make_deployment, make_node

pytestmark = [pytest.mark.django_db, pytest.mark.services]

OLD = {"If-Match": '"999-abc"'}
TIER = {
    "weight": 1, "queue_most": 1, "queue_most_bytes": 1, "longest_wait_s": 1, "total_base_s": 1, "total_per_token_s": 1
}  # fmt: skip
BODIES: dict[str, dict[str, Any]] = {
    "clone_deployment": {"new_name": "copy"},
    "put_deployment": {"engine": "vllm", "variant": "smollm2/bf16"},
    "put_freeze": {"frozen": True},
    "put_variant": {"path": "/m"},
    "scale_deployment": {"replicas": 3},
    "move_node": {"pool": "default"},
    "put_tier": TIER,
    "put_deployment_tier": TIER,
    "put_key_tier": {"tier": "batch"},
    "put_quota": {"tokens_per_day": 1},
    "put_ladder": {"steps": []},
    "put_slo": {"ttft_s": 1, "tpot_s": 0.08},
    "put_price": {"prompt_per_million": 1, "completion_per_million": 2},
    "price_node": {"card_price_per_hour": 2.5},
    "label_node": {"labels": {"rack": "r1"}},
    "release_memory": {"owner_id": "r1"},
}
# what is done to something new, or to a replica in whatever state it is; a preview and one's password
UNCONDITIONAL = {
    "create_token", "create_key", "change_my_password", "preview_engine", "drain_replica", "restart_replica",
    "plan_estimate", "plan_capacity",
}  # fmt: skip


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    out = StringIO()
    call_command("spectacular", stdout=out)
    found: dict[str, Any] = yaml.safe_load(out.getvalue())
    return found


def operations(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any], set[str]]]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation, {one["name"] for one in operation.get("parameters", [])}


def test_an_operation_without_a_condition_is_a_listed_one(schema: dict[str, Any]) -> None:
    found = {
        operation["operationId"]
        for _, method, operation, parameters in operations(schema)
        if method != "get" and "If-Match" not in parameters
    }
    assert found == UNCONDITIONAL


def test_every_documented_condition_is_honoured(schema: dict[str, Any]) -> None:
    world = make_world()
    administrator = make_client("administrator")
    before = _rows()
    for path, method, operation, parameters in operations(schema):
        name, url = operation["operationId"], _url(path, world.arguments)
        if method == "get" and "ETag" in parameters:
            answer = administrator.get(url)
            assert answer.headers.get("ETag"), name
            assert administrator.get(url, headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304, name
        if "If-Match" in parameters:
            answer = getattr(administrator, method)(url, BODIES.get(name, {}), headers=OLD)
            assert answer.status_code == 412, (name, answer.content)
    assert _rows() == before


def _url(path: str, arguments: dict[str, Any]) -> str:
    route = path.strip("/").replace("{", "<name:").replace("}", ">") + "/"
    names = [part.split("}")[0] for part in path.split("{")[1:]]
    return path.format(**arguments_for(route, names, arguments))


def _rows() -> list[Any]:
    tables = (Deployment, Node, Accelerator, Pool, Model, ApiKey)
    revoked = list(ApiToken.objects.values_list("pk", "revoked_at"))  # their last use is written
    return [revoked, *(list(table._default_manager.order_by("pk").values()) for table in tables)]


def test_who_changed_it_is_a_person_and_not_what_the_system_told_later(operator: APIClient) -> None:
    make_node("n1")
    url = "/api/v1/nodes/n1/"
    old = operator.get(url).headers["ETag"]
    nodes.cordon(actor=ADA, name="n1", reason="fans")
    record.event(actor=SYSTEM, verb="node.lost", object_kind="node", object_id="n1", message="Silent.")
    answer = operator.post(f"{url}uncordon/", headers={"If-Match": old})
    assert answer.status_code == 412
    assert error(answer)["details"]["changed_by"] == "ada"


def test_who_copied_a_deployment_has_not_changed_it(operator: APIClient) -> None:
    make_deployment("chat")
    assert operator.post("/api/v1/deployments/chat/clone/", {"new_name": "copy"}).status_code == 201
    answer = operator.post("/api/v1/deployments/chat/stop/", headers=OLD)
    assert error(answer)["details"]["changed_by"] == "ada"


def test_an_accelerator_is_cordoned_on_the_version_of_its_node(operator: APIClient) -> None:
    make_node("n1")
    old = operator.get("/api/v1/nodes/n1/").headers["ETag"]
    url = "/api/v1/nodes/n1/accelerators/n1-0/cordon/"
    assert operator.post(url, headers={"If-Match": old}).status_code == 200
    assert operator.post("/api/v1/nodes/n1/accelerators/n1-1/cordon/", headers={"If-Match": old}).status_code == 412


@pytest.mark.parametrize("tag", ['"99-x"', "1", '"nonsense"', '"1-abc", "2-abc"'])
def test_what_is_no_etag_of_ours_is_refused_and_said(operator: APIClient, tag: str) -> None:
    make_deployment("chat")
    answer = operator.post("/api/v1/deployments/chat/stop/", headers={"If-Match": tag})
    assert answer.status_code == 412
    told = error(answer)
    assert told["message"] == "What was sent is no version of the deployment chat."
    assert set(told["details"]) == {"hint", "version"}
    assert "quotation marks" in told["details"]["hint"]
