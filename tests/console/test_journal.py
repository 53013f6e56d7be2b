"""The journal's pages stand whatever its rows are about: objects gone, kinds unknown, addresses of no page."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator

import pytest

from controlplane.catalog.services.models import ModelWish, VariantWish, apply_model, apply_variant
from controlplane.console import decision_words
from controlplane.console.frame import object_url
from controlplane.deployments.controller import ingest
from controlplane.deployments.controller.carry_out import Reconciler
from controlplane.deployments.models import Replica
from controlplane.domain.lifecycle import Reason
from controlplane.journal.services import record
from tests.console import making, messages
from tests.console.calling import make_client
from tests.deployments.controller.reporting import Reporter, make_observed, make_transition
from tests.deployments.making import make_deployment

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

PATHS = ("/", "/overview/parts/recent/", "/journal/", "/journal/decisions/")
ODD = ("", "/", "a/b/c", "é", "../x", "gone", "a b", "%2F", "do")


@pytest.mark.parametrize(
    ("kind", "address", "page"),
    [
        ("deployment", "chat", "/deployments/chat/"),
        ("replica", "7f3ak2m9q0xd", "/replicas/7f3ak2m9q0xd/"),
        ("node", "gpu-01.example.org", "/nodes/gpu-01.example.org/"),
        ("model", "Qwen2.5-7B", "/models/Qwen2.5-7B/"),
        ("model", "Qwen2.5-7B/bf16", "/models/Qwen2.5-7B/"),
        ("variant", "Qwen2.5-7B/bf16", "/models/Qwen2.5-7B/"),
        ("user", "ada", "/access/users/"),
        ("api_key", "7", "/access/keys/"),
        ("pool", "default", "/pools/"),
        ("system", "controller", ""),
        ("comet", "67p", ""),
        ("deployment", "no slug/here", ""),
        ("node", "", ""),
    ],
)
def test_an_object_of_the_journal_is_linked_where_it_has_a_page(kind: str, address: str, page: str) -> None:
    assert object_url(kind, address) == page


def test_no_row_breaks_a_page() -> None:
    kinds = ("deployment", "replica", "node", "pool", "model", "variant", "tenant", "api_key", "user", "comet", "")
    for kind in kinds:
        for address in ODD:
            making.make_event("odd", kind, address, "Odd.", ago_s=1)
            making.make_decision("odd", kind, address, "Odd.", ago_s=1)
    client = make_client()
    assert [client.get(path).status_code for path in PATHS] == [200] * len(PATHS)


def test_the_journal_of_a_deployment_tells_of_its_replicas() -> None:
    """The controller itself makes the rows: a replica is placed, fails on its node and is tried again."""
    make_deployment("chat")
    make_deployment("other", replicas=0)
    reporter = Reporter()
    ingest.take_over(reporter.report(), time.time())
    reconciler = Reconciler()
    while reconciler.run(time.time()):
        pass
    row = Replica.objects.get(deployment__name="chat")
    failed = make_transition(1, "failed", reason=Reason("out_of_memory", "It ran out of memory."))
    again = make_transition(2, "placed", "failed", reason=Reason("retry", "Back-off is over."))
    ingest.take_over(reporter.report(make_observed(row.pk, "placed", seq=2, transitions=(failed, again))), time.time())
    client = make_client()
    text = client.get("/deployments/chat/journal/").content.decode()
    for told in ("replica.failed", "It ran out of memory.", "Back-off is over.", "placement", "restart"):
        assert told in text, told
    marks = client.get("/deployments/chat/marks/").json()["marks"]
    assert {mark["kind"] for mark in marks} == {"revision", "decision", "failure"}
    assert "It ran out of memory." in [mark["text"] for mark in marks if mark["kind"] == "failure"]
    other = client.get("/deployments/other/journal/").content.decode()
    assert "replica.failed" not in other and "Back-off is over." not in other


def test_what_happened_to_accounts_is_for_administrators() -> None:
    for kind in ("user", "token", "api_key"):
        making.make_event("odd", kind, "ada", f"About a {kind}.", actor="grace")
    making.make_event("odd", "tenant", "demo", "About a tenant.")
    for role, shown in (("viewer", False), ("operator", False), ("administrator", True)):
        text = make_client(role).get("/journal/").content.decode()
        assert "About a tenant." in text
        assert [found in text for found in ("About a user.", "About a token.", "About a api_key.", "grace")] == [
            shown
        ] * 4


def test_a_new_variant_is_told_as_a_variant_and_leads_to_its_model() -> None:
    apply_model(actor=record.SYSTEM, name="Qwen2.5-7B", wish=ModelWish())
    apply_variant(actor=record.SYSTEM, model="Qwen2.5-7B", name="bf16", wish=VariantWish(path="/models/q"))
    text = make_client().get("/journal/?kind=variant").content.decode()
    assert "variant.created" in text and "model.created" not in text
    assert 'href="/models/Qwen2.5-7B/"' in text


def test_a_decision_is_told_in_words_with_units() -> None:
    record.decision(
        rule="degrade", object_kind="deployment", object_id="chat", object_name="chat", before="level 0",
        after="level 1", why="The saturation is 108%: the KV cache is nearly full.",
        numbers={"saturation": 1.08, "step": "cap_tokens", "tiers": "standard, batch", "wait_s": 64,
                 "memory_bytes": 2**31},
    )  # fmt: skip
    client = make_client("viewer")
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", client.get("/journal/decisions/").content.decode()))
    for told in ("saturation 108 %", "step shorter answers", "tiers Standard, Batch", "pause 1 min 4 s"):
        assert told in page
    assert "memory of each 2.00 GiB" in page and "level 0 → level 1" in page
    client.cookies["django_language"] = "zh-hans"
    page = client.get("/journal/decisions/").content.decode()
    assert "第 0 步 → 第 1 步" in page and "饱和度 <b>108 %</b>" in page


def test_every_number_of_a_decision_has_a_word() -> None:
    unnamed = {
        f"{path.name}: {name}"
        for path in sorted((messages.ROOT / "controlplane").rglob("*.py"))
        for name in _numbers_of_decisions(ast.parse(path.read_text(encoding="utf-8")))
        if name not in decision_words.NUMBERS
    }
    assert unnamed == set()


def _numbers_of_decisions(tree: ast.Module) -> Iterator[str]:
    """Names in a dictionary that is given to a decision as `numbers`, there or by a name in the same function."""
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and _decides(node.func)]
        given = [word.value for call in calls for word in call.keywords if word.arg == "numbers"]
        named = {one.id for one in given if isinstance(one, ast.Name)}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and any(getattr(one, "id", "") in named for one in node.targets):
                given.append(node.value)
        for one in given:
            if isinstance(one, ast.Dict):
                yield from (str(key.value) for key in one.keys if isinstance(key, ast.Constant))


def _decides(called: ast.expr) -> bool:
    return getattr(called, "attr", getattr(called, "id", "")) in ("decision", "_decide")
