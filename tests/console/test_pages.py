"""Every page renders, for every role. How many rows and queries a list takes: `test_rows.py`."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.deployments.models import Deployment
from tests.console import making
from tests.console.calling import HX, make_client

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

PAGES = (
    "/", "/pulse/", "/overview/parts/tiles/",
    "/overview/parts/deployments/", "/overview/parts/nodes/", "/overview/parts/recent/", "/profile/",
    "/help/", "/deployments/", "/deployments/llama-70b/", "/deployments/qwen3-coder/", "/deployments/gpt-oss-bridge/",
    "/deployments/smollm2/", "/deployments/llama-70b/replicas/", "/deployments/llama-70b/replicas/?ended=1",
    "/deployments/llama-70b/settings/", "/deployments/llama-70b/ledger/", "/deployments/smollm2/ledger/",
    "/deployments/llama-70b/journal/", "/planner/",
    "/deployments/llama-70b/head/", "/deployments/llama-70b/marks/", "/deployments/llama-70b/progress/",
    "/replicas/7f3ak2m9q0xd/", "/replicas/k9d2x7c4b6vn/", "/replicas/e7x1r9n3u5hq/", "/replicas/7f3ak2m9q0xd/head/",
    "/nodes/", "/nodes/gpu-01/", "/nodes/gpu-03/", "/nodes/sim-01/", "/models/", "/models/llama-3.3-70b-instruct/",
    "/pools/", "/journal/", "/journal/decisions/", "/access/tenants/", "/access/keys/",
    "/replicas/7f3ak2m9q0xd/progress/", "/nodes/gpu-01/progress/",
    "/gateway/", "/gateway/?deployment=llama-70b", "/gateway/now/?deployment=llama-70b", "/traffic/tiers/",
    "/traffic/quotas/", "/traffic/quotas/?tenant=chatbot", "/traffic/shares/", "/traffic/ladders/",
    "/traffic/ladders/llama-70b/", "/traffic/ladders/smollm2/", "/traffic/prices/", "/deployments/llama-70b/traffic/",
    "/traffic/objectives/",
    "/deployments/do/progress/?name=llama-70b&name=gone", "/nodes/do/progress/?name=gpu-01&name=gpu-02",
)  # fmt: skip
OPERATORS = (
    "/traffic/tiers/batch/edit/", "/traffic/tiers/batch/new/", "/traffic/tiers/batch/do/reset/",
    "/traffic/deployments/llama-70b/tiers/batch/edit/", "/traffic/deployments/smollm2/tiers/batch/edit/",
    "/traffic/deployments/llama-70b/tiers/batch/do/delete/", "/traffic/ladders/llama-70b/steps/new/",
    "/traffic/ladders/smollm2/steps/new/", "/traffic/ladders/llama-70b/steps/2/edit/",
    "/traffic/ladders/llama-70b/do/delete/", "/traffic/deployments/llama-70b/slo/edit/",
    "/traffic/deployments/smollm2/slo/edit/", "/traffic/deployments/llama-70b/slo/do/delete/",
    "/freeze/",
    "/deployments/llama-70b/logs/",
    "/pools/new/", "/pools/lab/edit/", "/pools/lab/do/delete/", "/models/qwen3-8b/variants/bf16/edit/",
    "/deployments/new/", "/deployments/new/engine/?engine=external", "/deployments/new/engine/?engine=simulated",
    "/deployments/llama-70b/edit/", "/deployments/gpt-oss-bridge/edit/", "/models/new/", "/models/qwen3-8b/edit/",
    "/models/qwen3-8b/variants/new/", "/models/qwen3-8b/do/delete/", "/models/qwen3-8b/variants/bf16/do/delete/",
    *(f"/deployments/llama-70b/do/{verb}/" for verb in ("start", "scale", "drain", "stop", "freeze", "unfreeze")),
    "/deployments/llama-70b/do/clone/", "/deployments/llama-70b/do/delete/",
    *(f"/deployments/do/{verb}/?name=llama-70b&name=smollm2" for verb in ("start", "drain", "stop")),
    *(f"/replicas/7f3ak2m9q0xd/do/{verb}/" for verb in ("drain", "restart")),
    *(f"/nodes/gpu-01/do/{verb}/" for verb in ("cordon", "uncordon", "drain", "move")),
    "/nodes/gpu-03/do/forget/", "/nodes/do/drain/?name=gpu-01",
    "/nodes/gpu-01/accelerators/GPU-gpu-01-0-8f3a-1c77/do/cordon/",
)  # fmt: skip
ADMINISTRATORS = (
    "/traffic/quotas/new/", "/traffic/quotas/chatbot/daily/edit/", "/traffic/quotas/chatbot/daily/do/delete/",
    "/traffic/shares/new/", "/traffic/shares/chatbot/llama-70b/edit/", "/traffic/shares/chatbot/llama-70b/do/delete/",
    "/traffic/prices/new/", "/traffic/prices/llama-70b/edit/", "/traffic/prices/llama-70b/do/delete/",
    "/access/users/", "/access/tokens/", "/access/tenants/new/", "/access/tenants/chatbot/edit/",
    "/access/tenants/chatbot/do/delete/",
    "/access/keys/new/", "/access/users/new/", "/access/users/bob/edit/", "/access/users/bob/do/delete/",
    "/access/tokens/new/",
)  # fmt: skip
SIMULATED = (
    "/", "/deployments/", "/deployments/llama-70b-sim/", "/replicas/s0m4k8w1z5te/", "/nodes/", "/nodes/sim-01/",
    "/models/llama-3.3-70b-instruct/",
)  # fmt: skip


@pytest.mark.parametrize("role", ["viewer", "operator", "administrator"])
def test_a_role_sees_its_pages_and_no_others(role: str) -> None:
    making.make_fleet()
    client = make_client(role)
    allowed = [*PAGES, *(OPERATORS if role != "viewer" else ()), *(ADMINISTRATORS if role == "administrator" else ())]
    for path in (*PAGES, *OPERATORS, *ADMINISTRATORS):
        expected = 200 if path in allowed else 403
        assert client.get(path).status_code == expected, path
        assert client.get(path, headers=HX).status_code == expected, path


def test_nobody_sees_a_page_without_logging_in() -> None:
    making.make_fleet()
    for path in (*PAGES, *OPERATORS, *ADMINISTRATORS):
        response = Client().get(path)
        assert response.status_code == 302 and response["Location"].startswith("/login/?next="), path


def test_a_viewer_sees_no_button_that_writes() -> None:
    making.make_fleet()
    client = make_client("viewer")
    for path in PAGES:
        text = client.get(path).content.decode()
        links = re.findall(r'(?:href|data-bulk-do|action)="([^"]+)"', text)
        writing = [link for link in links if re.search(r"/(do|new|edit|try|freeze)/", link)]
        assert writing == [], path


def test_log_lines_are_on_no_page_of_a_viewer() -> None:
    making.make_fleet()
    lines = "Available KV cache memory: 0.84 GiB"
    for role, shown in (("viewer", False), ("operator", True)):
        client = make_client(role)
        text = client.get("/replicas/k9d2x7c4b6vn/").content.decode()
        assert (lines in text, "Logs need the role operator." in text) == (shown, not shown)
        assert ("/logs/" in client.get("/deployments/llama-70b/").content.decode()) == shown


def test_a_viewer_is_refused_what_a_hand_made_request_asks() -> None:
    making.make_fleet()
    client = make_client("viewer")
    for path in (*OPERATORS, *ADMINISTRATORS, "/deployments/llama-70b/try/"):
        assert client.post(path).status_code == 403, path
    assert Deployment.objects.get(name="llama-70b").replicas_wanted == 3


def test_simulated_things_say_so_everywhere() -> None:
    making.make_fleet()
    client = make_client()
    for path in SIMULATED:
        assert "simulated" in client.get(path).content.decode(), path


def test_secrets_are_on_no_page() -> None:
    making.make_fleet()
    Deployment.objects.filter(name="gpt-oss-bridge").update(external_key="sk-very-secret")
    client = make_client()
    for path in (*PAGES, *OPERATORS, *ADMINISTRATORS):
        text = client.get(path).content.decode()
        assert "sk-very-secret" not in text and "hwr-secret" not in text, path


def test_an_empty_console_teaches_the_next_step() -> None:
    client = make_client()
    for path, words in {
        "/": "Nothing is served yet",
        "/deployments/": "No deployments yet",
        "/nodes/": "No node has reported yet",
        "/models/": "No models yet",
        "/journal/": "Nothing has happened yet",
        "/access/tenants/": "No tenants yet",
        "/access/keys/": "No API keys yet",
    }.items():
        assert words in client.get(path).content.decode(), path


def test_filters_and_search_choose_rows() -> None:
    making.make_fleet()
    client = make_client()
    failed = client.get("/deployments/?state=failed", headers=HX).content.decode()
    assert "qwen3-coder" in failed and "llama-70b" not in failed
    assert "Nothing fits these filters" in client.get("/deployments/?q=nothing").content.decode()
    errors = client.get("/journal/?level=error&since=24h").content.decode()
    assert "replica.failed" in errors and "deployment.scaled" not in errors


def test_an_object_that_is_not_there_is_explained() -> None:
    client = make_client()
    for path in ("/deployments/none/", "/replicas/none/", "/nodes/none/", "/models/none/", "/deployments/x/do/juggle/"):
        response = client.get(path)
        assert response.status_code == 404 and "There is no" in response.content.decode(), path


def test_an_unknown_address_has_a_page_of_its_own(settings: object) -> None:
    response = make_client().get("/nothing/here/")
    assert response.status_code == 404 and "There is no page at this address" in response.content.decode()


def test_the_pages_work_while_valkey_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    making.make_fleet()
    client = make_client()
    monkeypatch.setenv("REDIS_URL", "unix:///nowhere/v.sock")
    for path in ("/", "/deployments/", "/deployments/llama-70b/", "/nodes/gpu-01/", "/replicas/7f3ak2m9q0xd/"):
        assert client.get(path).status_code == 200, path
    answer = client.get(reverse("telemetry-history"), {"subject": "node:gpu-01", "window": "300"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
