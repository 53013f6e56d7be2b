"""Rows of earlier versions after the migrations."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from controlplane.deployments import selectors
from controlplane.domain.rejections import CardsAt, Rejected

BEFORE = [("deployments", "0004_memory"), ("fleet", "0008_memory_not_back")]
REJECTED = [
    {"node": "n2", "card": "", "reason": "is cordoned"},
    {"node": "n3", "card": "", "reason": "is cordoned"},
    {"node": "n1", "card": "n1-1", "reason": "taken"},
    {"node": "n1", "card": "n1-0", "reason": "taken"},
    {"node": "n1", "card": "gone", "reason": "taken"},
    {"node": "", "card": "", "reason": "taken", "more": 7, "of": "cards"},
    {"node": "", "card": "", "reason": "is lost (it does not report)", "more": 5, "of": "nodes"},
]


@pytest.mark.services
@pytest.mark.django_db(transaction=True)
def test_what_placements_passed_over_is_kept_by_reason() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(BEFORE)
    try:
        old = executor.loader.project_state(BEFORE).apps
        pool = old.get_model("fleet", "Pool").objects.create(name="p")
        node = old.get_model("fleet", "Node").objects.create(name="n1", pool=pool)
        cards = old.get_model("fleet", "Accelerator").objects
        for index in range(2):
            cards.create(node=node, uuid=f"n1-{index}", index=index, kind="gpu", name="H100", address="0")
        deployment = old.get_model("deployments", "Deployment").objects.create(name="chat", engine="vllm", pool=pool)
        revision = old.get_model("deployments", "Revision").objects.create(deployment=deployment, number=1, hash="h")
        fields = {"deployment": deployment, "revision": revision, "state_since": timezone.now(), "key": "k"}
        old.get_model("deployments", "Replica").objects.create(id="r1", rejected=REJECTED, **fields)
        old.get_model("deployments", "Replica").objects.create(id="r2", **fields)
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
    assert selectors.passed_over(["r1", "r2"]) == {
        "r1": (
            Rejected("is cordoned", ("n2", "n3")),
            Rejected("taken", cards=(CardsAt((0, 1), ("n1",)),), more_cards=8),
            Rejected("is lost (it does not report)", more_nodes=5),
        )
    }
