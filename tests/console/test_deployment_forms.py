from __future__ import annotations

import html
import re

import pytest

from controlplane.deployments.models import Deployment
from tests.console import making
from tests.console.calling import HX, make_client

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]


def make_fields(**values: str) -> dict[str, str]:
    fields = {
        "name": "chat",
        "engine": "vllm",
        "variant": "smollm2-135m-instruct/bf16",
        "pool": "default",
        "replicas": "2",
    }
    return {**fields, "tensor_parallel": "1", "pipeline_parallel": "1", **values}


def make_running() -> Deployment:
    return making.make_deployment("chat", variant=making.make_variant(), settings={"max_num_seqs": 16})


def test_a_new_deployment_has_the_settings_that_were_filled_in() -> None:
    making.make_variant(), making.make_pool()
    fields = make_fields(**{"settings.max_model_len": "4,096", "settings.enforce_eager": "true", "note": "first"})
    response = make_client().post("/deployments/new/", fields)
    assert (response.status_code, response["Location"]) == (302, "/deployments/chat/")
    row = Deployment.objects.select_related("revision").get(name="chat")
    assert row.revision is not None and row.replicas_wanted == 2
    assert row.revision.spec["settings"] == {"max_model_len": 4096, "enforce_eager": True}


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "Bad Name", "Use lower-case letters"),
        ("replicas", "many", "Give a whole number."),
        ("settings.max_model_len", "long", "Give a whole number."),
        ("settings.gpu_memory_utilization", "7", "0.99"),
        ("variant", "none/none", "There is no variant"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(field: str, value: str, words: str) -> None:
    making.make_variant(), making.make_pool()
    response = make_client().post("/deployments/new/", make_fields(**{field: value}))
    text = response.content.decode()
    assert response.status_code == 422 and not Deployment.objects.exists()
    identifier = "f-" + field.replace(".", "-")
    problem = text.split(f'id="{identifier}-problem">')[1].split("<")[0]
    assert words in problem and f'aria-describedby="{identifier}-problem' in text


def test_a_name_that_is_taken_is_said_at_the_name() -> None:
    make_running()
    response = make_client().post("/deployments/new/", make_fields())
    assert response.status_code == 409 and "There is already a deployment chat." in response.content.decode()


def test_the_preview_shows_the_command_line_or_what_is_wrong() -> None:
    making.make_variant(), making.make_pool()
    client = make_client()
    filled = make_fields(**{"settings.max_num_seqs": "8", "note": "fewer seats"})
    good = html.unescape(client.post("/deployments/new/preview/", filled).content.decode())
    assert "--max-num-seqs 8" in good and "curl -X PUT" in good and "If-None-Match: *" in good
    assert '"note": "fewer seats"' in good and '"max_num_seqs": 8' in good
    assert "settings.max_num_seqs" in client.post(
        "/deployments/new/preview/", make_fields(**{"settings.max_num_seqs": "0"})
    ).content.decode()  # fmt: skip


def test_an_edit_shows_the_difference_before_it_makes_a_revision() -> None:
    row = make_running()
    client = make_client()
    fields = make_fields(replicas="1", version=str(row.version), step="review", **{"settings.max_num_seqs": "32"})
    review = client.post("/deployments/chat/edit/", fields).content.decode()
    assert "Seats: 16" in review and "Seats: 32" in review and "Make revision 2" in review
    assert Deployment.objects.get(name="chat").version == row.version
    response = client.post("/deployments/chat/edit/", {**fields, "step": "save"})
    changed = Deployment.objects.select_related("revision").get(name="chat")
    assert response.status_code == 302 and changed.revision is not None
    assert (changed.revision.number, changed.revision.spec["settings"]) == (2, {"max_num_seqs": 32})


def test_an_edit_that_somebody_overtook_is_refused_and_says_so() -> None:
    row = make_running()
    Deployment.objects.filter(pk=row.pk).update(version=row.version + 1)
    fields = make_fields(version=str(row.version), step="save", **{"settings.max_num_seqs": "32"})
    response = make_client().post("/deployments/chat/edit/", fields)
    assert response.status_code == 409 and "changed_meanwhile" in response.content.decode()


def test_a_form_with_a_broken_version_is_refused_calmly() -> None:
    make_running()
    response = make_client().post("/deployments/chat/edit/", make_fields(version="x", step="save"))
    assert response.status_code == 422


def test_an_external_endpoint_needs_no_model() -> None:
    making.make_pool()
    fields = {
        "name": "bridge",
        "engine": "external",
        "external_url": "https://host.example.org/v1",
        "external_model": "m",
    }
    client = make_client()
    wrong = client.post("/deployments/new/", {**fields, "settings.scheduling_policy": "priority"})
    assert wrong.status_code == 422 and "Only vLLM takes priorities" in wrong.content.decode()
    response = client.post("/deployments/new/", {**fields, "external_key": "sk-1", "settings.is_vllm": "true"})
    row = Deployment.objects.get(name="bridge")
    assert response.status_code == 302 and (row.engine, row.external_key) == ("external", "sk-1")
    assert row.revision is not None and row.revision.spec["settings"] == {"is_vllm": True}


def test_a_running_endpoint_is_connected_from_the_list_in_one_form() -> None:
    """The whole way: the button, the choice of the engine, URL, key and model name, the preview, the page after it."""
    making.make_pool()
    client = make_client("operator")
    assert 'href="/deployments/new/"' in client.get("/deployments/").content.decode()
    assert 'value="external"' in client.get("/deployments/new/").content.decode()
    fields = client.get("/deployments/new/engine/?engine=external").content.decode()
    asked = re.findall(r'<(?:input|select)[^>]* name="([^"]+)"[^>]* required', fields)
    assert asked == ["external_url", "external_model"] and 'name="external_key"' in fields
    filled = {
        "name": "bridge", "engine": "external", "external_url": "https://llm.example.org/v1",
        "external_model": "gpt-oss-20b", "external_key": "sk-secret",
    }  # fmt: skip
    preview = client.post("/deployments/new/preview/", filled).content.decode()
    assert "https://llm.example.org/v1" in preview and "sk-secret" not in preview
    response = client.post("/deployments/new/", filled, follow=True)
    page = response.content.decode()
    assert response.redirect_chain == [("/deployments/bridge/", 302)]
    assert "https://llm.example.org/v1" in page and "sk-secret" not in page
    assert 'id="usage-title"' in page and 'id="try-title"' in page
    assert "/do/scale/" not in page and "/deployments/bridge/logs/" not in page
    listed = client.get("/deployments/", headers=HX).content.decode()
    assert "/deployments/bridge/" in listed and "External" in listed


def test_an_endpoint_that_can_not_be_is_said_at_its_field() -> None:
    making.make_pool()
    filled = {"name": "bridge", "engine": "external", "external_url": "llm.example.org", "external_model": ""}
    response = make_client("operator").post("/deployments/new/", filled)
    text = response.content.decode()
    assert response.status_code == 422 and not Deployment.objects.exists()
    assert 'id="f-external_url-problem"' in text and 'id="f-external_model-problem"' in text


def test_a_form_without_any_pool_says_where_to_make_one() -> None:
    text = make_client("operator").get("/deployments/new/?engine=external").content.decode()
    assert "There is no pool yet." in text and 'href="/pools/"' in text
