"""Rows of deployments and their replicas get the name of the deployment, as rows that are written now have it."""

from django.db import migrations
from django.db.models import F, Value
from django.db.models.functions import StrIndex, Substr


def fill(apps, schema_editor):
    for name in ("Event", "Decision"):
        rows = apps.get_model("journal", name)._default_manager.filter(deployment="")
        rows.filter(object_kind="deployment").update(deployment=Substr("object_id", 1, 63))
        # a replica is named deployment/id; the rule's rows about a stranger's replica are named node/id
        replicas = rows.filter(object_kind="replica", object_name__contains="/")
        if name == "Decision":
            replicas = replicas.exclude(rule="unknown_replica")
        replicas.update(deployment=Substr("object_name", 1, StrIndex(F("object_name"), Value("/")) - 1))


class Migration(migrations.Migration):
    dependencies = [("journal", "0003_deployment")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
