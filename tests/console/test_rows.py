"""Lists stay quick however many rows there are: pages cut by the database, a fixed number of queries, few rows.

`HEADWORKS_UPDATE_QUERY_COUNTS=1` writes what is found to `query_counts.json`; read the difference before committing it.
"""

from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.accounts.models import ApiKey, ApiToken, Tenant, User
from controlplane.catalog.models import Model, Variant
from controlplane.deployments.models import Deployment, Replica, Revision
from controlplane.domain.admission.tiers import BATCH
from controlplane.fleet.models import Accelerator, ModelFiles, Node, Pool, Reservation
from controlplane.journal.models import Decision, Event
from controlplane.telemetry.frames import MOST_SUBJECTS
from controlplane.traffic.models import Ladder, Price, Quota, Share, Tier
from controlplane.traffic.rule_selectors import TIER_FIELDS
from tests.console import making
from tests.console.calling import HX, make_client

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

TABLE = Path(__file__).with_name("query_counts.json")
# list -> the largest page
LISTS = {
    "/deployments/": 50,
    "/deployments/big/replicas/": 80,
    "/deployments/big/journal/": 70,
    "/nodes/": 50,
    "/nodes/big/": 178,
    "/pools/": 50,
    "/models/": 50,
    "/journal/": 50,
    "/journal/decisions/": 50,
    "/traffic/tiers/": 50,
    "/traffic/quotas/": 50,
    "/traffic/shares/": 50,
    "/traffic/ladders/": 50,
    "/traffic/objectives/": 50,
    "/traffic/prices/": 50,
    "/deployments/big/traffic/": 110,
    "/access/tenants/": 50,
    "/access/keys/": 50,
    "/access/users/": 50,
    "/access/tokens/": 50,
    "/": 40,
    "/pulse/": 0,
}
ROWS = re.compile(r"<tr\b(?![^>]*>\s*<th)|<li class=\"(?:row-item|deploy-tile)|<article")


def make_rows(number: int, start: int = 0) -> None:
    """Adds so many of everything that is listed; all live on one big deployment and one big node too."""
    names = [f"row-{index:05d}" for index in range(start, start + number)]
    pool = making.make_pool()
    Pool.objects.bulk_create(Pool(name=f"pool-{name}") for name in names)
    models = Model.objects.bulk_create(Model(name=name, display_name=name, family="x") for name in names)
    variants = Variant.objects.bulk_create(Variant(model=row, name="bf16", path="/x") for row in models)
    rows = Deployment.objects.bulk_create(
        Deployment(name=row.model.name, engine="vllm", variant=row, pool=pool, replicas_wanted=1) for row in variants
    )
    _revise(rows)
    nodes = Node.objects.bulk_create(Node(name=name, pool=pool, last_report_at=timezone.now()) for name in names)
    big, node = Deployment.objects.get(name="big"), Node.objects.get(name="big")
    for row, place in [*zip(rows, nodes, strict=True), *((big, node) for _ in names)]:
        _replicas.append((row, place))
    _place(start)
    ModelFiles.objects.bulk_create(ModelFiles(node=node, location=f"/{name}", state="present") for name in names)
    _accounts(names)
    _rules(names, rows, big)
    _journal(names)


_replicas: list[tuple[Deployment, Node]] = []


def _place(start: int) -> None:
    """One replica on one card for each pair."""
    pairs, _replicas[:] = list(_replicas), []
    cards = Accelerator.objects.bulk_create(
        Accelerator(
            node=node, uuid=f"card-{start}-{index}", index=start + index, kind="gpu", name="H100", address=str(index),
            observed={"memory_total_bytes": 80, "memory_used_bytes": 60},
        )
        for index, (_, node) in enumerate(pairs)
    )  # fmt: skip
    replicas = Replica.objects.bulk_create(
        Replica(
            id=f"r{start:05d}{index:06d}", deployment=row, revision=row.revision, node=node, state="ready", key="k",
            state_since=timezone.now(),
        )
        for index, (row, node) in enumerate(pairs)
    )  # fmt: skip
    Reservation.objects.bulk_create(
        Reservation(accelerator=card, owner_id=replica.pk) for card, replica in zip(cards, replicas, strict=True)
    )


def _revise(rows: list[Deployment]) -> None:
    made = Revision.objects.bulk_create(
        Revision(deployment=row, number=1, hash=f"{row.pk:064d}", spec={"settings": {}}) for row in rows
    )
    for row, revision in zip(rows, made, strict=True):
        row.revision = revision
    Deployment.objects.bulk_update(rows, ["revision"])


def _accounts(names: list[str]) -> None:
    users = User.objects.bulk_create(User(username=name) for name in names)
    tenants = Tenant.objects.bulk_create(Tenant(name=name) for name in names)
    ApiKey.objects.bulk_create(ApiKey(tenant=row, name=row.name, prefix="hw", key_hash=row.name) for row in tenants)
    ApiToken.objects.bulk_create(
        ApiToken(user=row, name="t", prefix="hwt", token_hash=row.username, role="viewer") for row in users
    )


def _rules(names: list[str], rows: list[Deployment], big: Deployment) -> None:
    tenants = {row.name: row for row in Tenant.objects.filter(name__in=names)}
    values = {name: getattr(BATCH, name) for name in TIER_FIELDS}
    Tier.objects.bulk_create(Tier(name="batch", deployment=row, **values) for row in rows)
    keys = dict(ApiKey.objects.filter(tenant__name__in=names).values_list("tenant__name", "pk"))
    limits = {"tokens_per_day": 7}
    Quota.objects.bulk_create(
        Quota(tenant=tenants[name], name=f"q{number}", key_id=keys[name], deployment=owner, limits=limits)
        for name, row in zip(names, rows, strict=True)
        for number, owner in enumerate((row, big))
    )
    Share.objects.bulk_create(
        Share(tenant=tenants[name], deployment=owner, weight=1.0, guaranteed=0.1, most=1.0)
        for name, row in zip(names, rows, strict=True)
        for owner in (row, big)
    )
    steps = [{"kind": "shed", "tiers": ["batch"], "max_tokens": 1, "deployment": ""}]
    Ladder.objects.bulk_create(Ladder(deployment=row, steps=steps) for row in rows)
    Price.objects.bulk_create(Price(deployment=row, prompt_per_million=1, completion_per_million=2) for row in rows)


def _journal(names: list[str]) -> None:
    at = timezone.now() - timedelta(minutes=1)
    for target in (*names, *("big" for _ in names)):
        about = {"object_kind": "deployment", "object_id": target, "object_name": target, "deployment": target}
        _events.append(Event(at=at, actor_kind="user", actor="ada", verb="deployment.scaled", message="x", **about))
        _decisions.append(Decision(first_at=at, last_at=at, rule="placement", why="x", **about))
    Event.objects.bulk_create(_events)
    Decision.objects.bulk_create(_decisions)
    _events.clear()
    _decisions.clear()


_events: list[Event] = []
_decisions: list[Decision] = []


def make_big() -> None:
    making.make_deployment("big", variant=making.make_variant("many"), replicas_wanted=3)
    making.make_node("big", cards=0)


def seen(client: Client, path: str) -> tuple[int, str]:
    """Returns how many queries a list takes, and its text."""
    with CaptureQueriesContext(connection) as captured:
        response = client.get(path, headers=HX) if path != "/" else client.get(path)
    assert response.status_code == 200, path
    return len(captured), response.content.decode()


def test_each_list_takes_the_same_few_queries_for_3_and_for_30_rows() -> None:
    make_big()
    client = make_client()
    make_rows(3)
    few = {path: seen(client, path)[0] for path in LISTS}
    make_rows(27, start=3)
    many = {path: seen(client, path)[0] for path in LISTS}
    assert few == many
    if os.environ.get("HEADWORKS_UPDATE_QUERY_COUNTS"):
        TABLE.write_text(json.dumps(many, indent=2) + "\n", encoding="utf-8")
    assert many == json.loads(TABLE.read_text(encoding="utf-8"))


def test_thousands_of_rows_are_shown_a_page_at_a_time() -> None:
    make_big()
    make_rows(2000)
    client = make_client()
    expected = json.loads(TABLE.read_text(encoding="utf-8"))
    for path, most in LISTS.items():
        queries, text = seen(client, path)
        assert queries == expected[path], path
        rows = len(ROWS.findall(text))
        assert rows <= most, (path, rows)
        live = set(re.findall(r'data-(?:live|spark)="([^"]+)"', text))
        assert len(live) <= MOST_SUBJECTS, (path, len(live))
        assert len(text) < 400_000, (path, len(text))
