"""Moves what placements passed over from the replicas' rows into their own, by reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

AT_ONCE = 500


def move(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    """Cards were kept by uuid; one that is known no more is counted."""
    cards = apps.get_model("fleet", "Accelerator").objects.values_list("node__name", "uuid", "index")
    indexes = {(node, uuid): index for node, uuid, index in cards}
    passed_over = apps.get_model("deployments", "PassedOver")
    replicas = apps.get_model("deployments", "Replica").objects.exclude(rejected=[]).only("pk", "rejected")
    moved = (passed_over(replica_id=row.pk, rejected=by_reason(row.rejected, indexes)) for row in replicas.iterator())
    passed_over.objects.bulk_create(moved, batch_size=AT_ONCE)


def by_reason(rejected: list[dict[str, Any]], indexes: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    """Returns each reason with the nodes, or with the cards, that it holds for."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    cards: dict[str, dict[str, set[int]]] = {}  # reason -> node -> indexes
    for one in rejected:
        what = one.get("of") or ("cards" if one.get("card") else "nodes")
        group = groups.setdefault((what, one["reason"]), {"reason": one["reason"]})
        index = indexes.get((one["node"], one.get("card", "")))
        if one.get("more") or (what == "cards" and index is None):
            group[f"more_{what}"] = group.get(f"more_{what}", 0) + (one.get("more") or 1)
        elif what == "nodes":
            group.setdefault("nodes", []).append(one["node"])
        elif index is not None:
            cards.setdefault(one["reason"], {}).setdefault(one["node"], set()).add(index)
    for reason, nodes in cards.items():
        together: dict[str, list[str]] = {}
        for node, found in nodes.items():
            together.setdefault(",".join(str(index) for index in sorted(found)), []).append(node)
        groups["cards", reason]["cards"] = together
    return list(groups.values())


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0005_passed_over"),
        ("fleet", "0008_memory_not_back"),
    ]

    operations = [migrations.RunPython(move, migrations.RunPython.noop)]
