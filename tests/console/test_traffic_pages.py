"""Tiers, quotas, shares, ladders, prices and key tiers are changed through their pages, and taken back."""

from __future__ import annotations

import asyncio
import re
import time

import pytest
from django.test import Client

from controlplane.accounts.models import ApiKey
from controlplane.console.amounts import PERCENT, Amount
from controlplane.deployments.models import Deployment
from controlplane.domain.samples import SamplePart
from controlplane.journal.models import Event
from controlplane.lib import histograms, sample_store, valkey
from controlplane.traffic import tiers_in_force
from controlplane.traffic.models import KeyTier, Ladder, Price, Quota, Share, Tier
from tests.console import making, making_traffic
from tests.console.calling import HX, make_client
from tests.console.test_undo import act, take_back

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

TIER = {
    "weight": "2.5", "queue_most": "7", "queue_most_bytes": "4", "longest_wait_s": "1.5", "total_base_s": "20",
    "total_per_token_s": "0.1", "kv_share": "50",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _fleet(db: None) -> None:
    making.make_fleet()


def test_a_tier_of_all_is_changed_reset_and_each_is_taken_back() -> None:
    client = make_client("operator")
    note = act(client, "/traffic/tiers/standard/edit/", **TIER, version="0")
    row = Tier.objects.get(name="standard", deployment=None)
    assert (row.weight, row.queue_most_bytes, row.kv_share) == (2.5, 4 * 2**20, 0.5)
    assert take_back(client, note) == 204
    assert not Tier.objects.filter(name="standard").exists()
    client.get("/traffic/tiers/")  # takes the message of before away
    act(client, "/traffic/tiers/standard/edit/", **TIER, version="0")
    note = act(client, "/traffic/tiers/standard/do/reset/", version="1")
    assert tiers_in_force.common_one("standard").version == 0
    assert take_back(client, note) == 204
    assert tiers_in_force.common_one("standard").queue_most == 7


def test_a_deployment_gets_rules_of_its_own_from_those_of_all() -> None:
    client = make_client("operator")
    shown = client.get("/traffic/deployments/smollm2/tiers/batch/edit/", headers=HX).content.decode()
    assert 'value="4096"' in shown and 'value="80"' in shown
    client.post("/traffic/deployments/smollm2/tiers/batch/edit/", {**TIER, "version": "0"}, headers=HX)
    assert tiers_in_force.own("smollm2", "batch").queue_most == 7
    assert client.post("/traffic/tiers/batch/new/", TIER, headers=HX).status_code == 422
    assert not Tier.objects.filter(name="batch", deployment=None).exists(), "no deployment is not all of them"
    client.post("/traffic/tiers/batch/new/", {**TIER, "deployment": "qwen3-coder"}, headers=HX)
    client.get("/traffic/tiers/")  # takes the messages of before away
    note = act(client, "/traffic/deployments/qwen3-coder/tiers/batch/do/delete/", version="1")
    assert take_back(client, note) == 204
    assert tiers_in_force.own("qwen3-coder", "batch").weight == 2.5
    assert "its own" in client.get("/deployments/qwen3-coder/traffic/").content.decode()


def test_what_a_pool_keeps_from_batch_is_shown_as_in_force_and_outlives_a_change_of_another_field() -> None:
    client = make_client("operator")
    Deployment.objects.get(name="smollm2").pool.__class__.objects.update(batch_kv_share=0.6)
    page = client.get("/deployments/smollm2/traffic/").content.decode()
    assert "KV share of the pool" in page
    edit = "/traffic/deployments/smollm2/tiers/batch/edit/"
    shown = client.get(edit, headers=HX).content.decode()
    assert re.search(r'name="kv_share"[^>]*value="60"|value="60"[^>]*name="kv_share"', shown)
    new = {**TIER, "kv_share": "", "deployment": "qwen3-coder"}
    assert client.post("/traffic/tiers/batch/new/", new, headers=HX).status_code == 204
    assert tiers_in_force.own("qwen3-coder", "batch").kv_share == 0.6
    assert client.post(edit, {**TIER, "kv_share": "", "version": "0"}, headers=HX).status_code == 422


def test_what_is_wrong_is_said_at_each_field_in_its_unit() -> None:
    fields = {**TIER, "kv_share": "120", "weight": "0", "queue_most": "1.5", "longest_wait_s": "nan", "version": "0"}
    text = make_client("operator").post("/traffic/tiers/batch/edit/", fields, headers=HX).content.decode()
    assert "Give a number above 0, at most 100 %." in text
    assert "Give a number above 0, at most 1,000." in text
    assert "Give a whole number from 0 to 1,000,000." in text
    assert "Give a number from 0 to 86,400 s." in text
    assert 'value="120"' in text


def test_a_quota_is_made_changed_removed_and_taken_back() -> None:
    client = make_client()
    fields = {
        "name": "new",
        "tenant": "search-team",
        "tokens_per_day": "5000",
        "money_per_month": "12.5",
        "deployment": "",
    }
    note = act(client, "/traffic/quotas/new/", **fields)
    row = Quota.objects.get(name="new")
    assert row.limits == {"tokens_per_day": 5000, "money_per_month": 12_500_000}
    assert 'value="12.5"' in client.get("/traffic/quotas/search-team/new/edit/", headers=HX).content.decode()
    assert take_back(client, note) == 204 and not Quota.objects.filter(name="new").exists()
    note = act(client, "/traffic/quotas/chatbot/daily/do/delete/", version="1")
    assert take_back(client, note) == 204
    assert Quota.objects.get(name="daily").limits["tokens_per_day"] == 5_000_000
    assert client.post("/traffic/quotas/new/", {"name": "x", "tenant": "search-team"}, headers=HX).status_code == 422
    stale = {"tokens_per_day": "1", "version": "7"}
    assert client.post("/traffic/quotas/chatbot/daily/edit/", stale, headers=HX).status_code == 409


def test_a_name_and_a_tenant_that_a_quota_lacks_are_said() -> None:
    client = make_client()
    text = client.post("/traffic/quotas/new/", {"name": "No", "tokens_per_day": "1"}, headers=HX).content.decode()
    assert 'id="f-tenant-problem"' in text
    fields = {"name": "No", "tenant": "search-team", "tokens_per_day": "-1"}
    assert 'id="f-tokens_per_day-problem"' in client.post("/traffic/quotas/new/", fields, headers=HX).content.decode()


def test_more_is_sold_than_there_is_only_with_the_override() -> None:
    client = make_client()
    Share.objects.all().delete()
    act(
        client,
        "/traffic/shares/new/",
        tenant="search-team",
        deployment="llama-70b",
        weight="1",
        guaranteed="70",
        most="100",
    )
    fields = {"tenant": "chatbot", "deployment": "llama-70b", "weight": "1", "guaranteed": "40", "most": "100"}
    refused = client.post("/traffic/shares/new/", fields, headers=HX)
    text = refused.content.decode()
    assert refused.status_code == 409 and "oversold" in text
    assert 'name="override"' in text and "Others are guaranteed 70 % of llama-70b, so 30 % is left." in text
    note = act(client, "/traffic/shares/new/", **fields, override="on")
    assert "Oversold" in client.get("/traffic/shares/").content.decode()
    row = "/traffic/shares/search-team/llama-70b/edit/"
    lower = {"weight": "1", "guaranteed": "65", "most": "100", "version": "1"}
    assert client.post(row, lower, headers=HX).status_code == 204, "the sum falls, so nothing is asked"
    assert client.post(row, {**lower, "guaranteed": "66", "version": "2"}, headers=HX).status_code == 409
    client.get("/traffic/shares/")  # takes the message of before away
    assert take_back(client, note) == 204 and Share.objects.count() == 1


def test_a_guarantee_of_less_than_one_of_the_seats_of_now_needs_the_override() -> None:
    client = make_client()
    Share.objects.all().delete()
    making_traffic.tell("llama-70b")
    url = "/traffic/shares/new/"
    fields = {"tenant": "chatbot", "deployment": "llama-70b", "weight": "1", "guaranteed": "0.5", "most": "100"}
    refused = client.post(url, fields, headers=HX)
    text = refused.content.decode()
    assert refused.status_code == 409 and 'name="override"' in text
    assert "llama-70b has 92 seats now, and 0.5 % of them is less than one." in text.replace("0.5%", "0.5 %")
    assert client.post(url, {**fields, "guaranteed": "1.1"}, headers=HX).status_code == 204
    client.get("/traffic/shares/")  # takes the message of before away
    act(client, "/traffic/shares/new/", **{**fields, "tenant": "search-team"}, override="on")


def test_steps_of_a_ladder_are_added_moved_removed_and_taken_back() -> None:
    client = make_client("operator")
    url = "/traffic/ladders/smollm2"
    first = {"kind": "cap_tokens", "max_tokens": "256", "tier.batch": "on", "version": "0"}
    assert client.post(f"{url}/steps/new/", first, headers=HX).status_code == 204
    second = {"kind": "divert", "max_tokens": "512", "deployment": "qwen3-coder", "version": "1"}
    assert client.post(f"{url}/steps/new/", second, headers=HX).status_code == 204
    client.post(f"{url}/steps/2/do/up/", {"version": "2"})
    row = Ladder.objects.get(deployment__name="smollm2")
    assert [(step["kind"], step["tiers"]) for step in row.steps] == [("divert", []), ("cap_tokens", ["batch"])]
    client.get(f"{url}/")  # takes the messages of before away
    note = act(client, f"{url}/steps/1/do/remove/", version="3")
    assert take_back(client, note) == 204
    row.refresh_from_db()
    assert len(row.steps) == 2
    wrong = {"kind": "divert", "max_tokens": "512", "deployment": "smollm2", "version": str(row.version)}
    text = client.post(f"{url}/steps/1/edit/", wrong, headers=HX).content.decode()
    assert "Name another deployment than this one." in text and 'id="f-deployment-problem"' in text
    assert client.post(f"{url}/steps/9/edit/", wrong, headers=HX).status_code == 404
    assert client.post(f"{url}/steps/1/do/up/", {"version": "1"}).status_code == 409
    note = act(client, f"{url}/do/delete/", version=str(row.version))
    assert take_back(client, note) == 204 and Ladder.objects.filter(deployment__name="smollm2").exists()


@pytest.mark.parametrize(
    ("kind", "shown"), [("cap_tokens", {"max_tokens"}), ("divert", {"deployment"}), ("shed", set()), ("odd", set())]
)
def test_the_form_of_a_step_has_the_fields_that_its_kind_uses(kind: str, shown: set[str]) -> None:
    client = make_client("operator")
    values = {"kind": kind, "max_tokens": "64", "deployment": "smollm2", "tier.batch": "on", "only": "fields"}
    answer = client.post("/traffic/ladders/smollm2/steps/new/", values)
    page = answer.content.decode()
    assert answer.status_code == 200 and not Ladder.objects.filter(deployment__name="smollm2").exists()
    assert {name for name in ("max_tokens", "deployment") if f'name="{name}"' in page} == shown
    assert re.search(r'name="tier.batch" checked', page), "what was filled in stays"
    assert '<noscript><button class="button" name="only" value="fields"' in page, "without scripts a button shows them"


def test_fields_of_another_kind_of_step_count_for_nothing() -> None:
    client = make_client("operator")
    values = {"kind": "shed", "max_tokens": "no number", "deployment": "gone", "version": "0"}
    assert client.post("/traffic/ladders/smollm2/steps/new/", values, headers=HX).status_code == 204
    assert Ladder.objects.get(deployment__name="smollm2").steps == [
        {"kind": "shed", "tiers": [], "max_tokens": 512, "deployment": ""}
    ]
    call = client.get("/traffic/ladders/smollm2/").content.decode()
    assert "&quot;kind&quot;: &quot;shed&quot;, &quot;tiers&quot;: []}]" in call, "the REST call has no other fields"


def test_the_head_of_a_deployment_says_that_its_ladder_is_climbed() -> None:
    client = make_client("viewer")
    assert "Ladder step" not in client.get("/deployments/llama-70b/").content.decode()
    making_traffic.tell("llama-70b", "smollm2")
    for path in ("/deployments/llama-70b/", "/deployments/llama-70b/journal/", "/deployments/llama-70b/head/"):
        page = client.get(path).content.decode()
        assert 'class="state state-degraded ' in page and "Ladder step 1 of 3</span></a>" in page
        assert '<div class="object" data-poll="5">' in page, "it is asked again while there is a ladder"
    assert "Ladder step" not in client.get("/deployments/smollm2/").content.decode()


def test_a_price_and_the_tier_of_a_key_are_set_and_taken_back() -> None:
    client = make_client()
    fields = {"deployment": "smollm2", "prompt_per_million": "0.15", "completion_per_million": "0.6"}
    note = act(client, "/traffic/prices/new/", **fields)
    assert Price.objects.get(deployment__name="smollm2").prompt_per_million == 0.15
    assert take_back(client, note) == 204 and not Price.objects.filter(deployment__name="smollm2").exists()
    key = ApiKey.objects.filter(tenant__name="search-team").first()
    assert key is not None
    note = act(client, f"/access/keys/search-team/{key.pk}/tier/edit/", tier="batch", version="0")
    assert KeyTier.objects.get(key=key).tier == "batch"
    assert "Batch" in client.get("/access/keys/").content.decode()
    assert take_back(client, note) == 204 and KeyTier.objects.get(key=key).tier == "standard"


def test_changes_stand_on_their_page_and_in_the_journal() -> None:
    client = make_client()
    act(client, "/traffic/prices/llama-70b/edit/", prompt_per_million="1", completion_per_million="2", version="1")
    assert Event.objects.filter(verb="price.changed", object_id="llama-70b").exists()
    for path in ("/traffic/prices/", "/journal/?kind=price"):
        assert "Price changed" in client.get(path).content.decode(), path


def test_an_amount_is_written_in_the_unit_of_people() -> None:
    share = Amount("share", "Share", "%", high=100, scale=PERCENT, above=True)
    assert [share.stored(text) for text in ("20", "7", "0.1", "100")] == [0.2, 0.07, 0.001, 1.0]
    assert [share.written(value) for value in (0.2, 0.07, 0.29, None)] == ["20", "7", "29", ""]
    for text in ("", "0", "101", "inf", "１２", "a"):
        with pytest.raises(ValueError, match="at most 100 %"):
            share.stored(text)


def shown(path: str, client: Client) -> str:
    """What a reader sees of a page, with single spaces."""
    html = client.get(path, headers=HX).content.decode()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_the_list_of_quotas_says_what_is_used_of_each_limit_and_when_it_is_whole_again() -> None:
    client = make_client()
    text = shown("/traffic/quotas/", client)
    assert "Tokens a day – / 5,000,000 whole again in" in text, "Valkey does not know"
    assert "Requests at once – / 8" in text and "Requests a minute 0 / 600" in text, "no gateway is heard"
    making_traffic.use_quotas()
    making_traffic.tell("llama-70b")
    text = shown("/traffic/quotas/", client)
    assert "Tokens a day 3,796,000 / 5,000,000 whole again in" in text
    assert "Money a month 640.00 / 1,250.00 whole again in" in text
    assert re.search(r"Requests a minute (1|2)\d\d / 600 whole again in \d+ s", text)
    assert "Requests at once 0 / 8" in text


def test_a_tier_s_two_bounds_of_its_queue_have_names_of_their_own() -> None:
    html = make_client().get("/traffic/tiers/").content.decode()
    row = html[html.index("<tbody>") :].split("</tr>")[0]
    labels = re.findall(r'data-label="([^"]+)"', row)
    assert "Queue memory" in labels and len(labels) == len(set(labels)), labels


def test_the_list_of_objectives_says_what_is_reached() -> None:
    client = make_client()
    row = "llama-70b 1.00 s {} 80.0 ms {} {}"
    assert row.format("–", "–", "no requests in the last minute") in shown("/traffic/objectives/", client)
    assert "smollm2 – – – – nothing is promised" in shown("/traffic/objectives/", client)
    for took, word in ((0.05, "Met"), (1.5, "Missed")):
        reach("llama-70b", ttft=took, tpot=0.05)
        assert word in shown("/traffic/objectives/?with=objective", client).split("llama-70b")[1]
    assert "smollm2" not in shown("/traffic/objectives/?with=objective", client)


def reach(deployment: str, **latencies: float) -> None:
    """A gateway's sample of a deployment whose requests all took so long."""
    counts = {name: {histograms.bucket_of(took): 50} for name, took in latencies.items()}
    part = SamplePart(f"deployment:{deployment}", "gateway:g1", time.time(), {}, counts)

    async def write() -> None:
        client = valkey.connect_async()
        await sample_store.write(client, [part], time.time())
        await client.aclose()

    asyncio.run(write())
