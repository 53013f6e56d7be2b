"""The version of the routing snapshot: a sequence, so that it grows over every leader that ever publishes."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("deployments", "0001_initial")]

    operations = [
        migrations.RunSQL("CREATE SEQUENCE headworks_snapshot_version", "DROP SEQUENCE headworks_snapshot_version")
    ]
