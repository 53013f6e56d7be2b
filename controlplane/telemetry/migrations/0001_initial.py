"""The table of one-minute roll-ups, partitioned by day. Partitions are made by `services.partitions`."""

from django.db import migrations, models

CREATE = """
CREATE TABLE telemetry_rollup_minute (
    minute timestamptz NOT NULL,
    subject varchar(100) NOT NULL,
    covered_s smallint NOT NULL,
    counters jsonb NOT NULL,
    gauges jsonb NOT NULL,
    histograms jsonb NOT NULL,
    PRIMARY KEY (subject, minute)
) PARTITION BY RANGE (minute)
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.RunSQL(
            sql=CREATE,
            reverse_sql="DROP TABLE telemetry_rollup_minute",
            state_operations=[
                migrations.CreateModel(
                    name="RollupMinute",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "minute", "subject", blank=True, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        ("minute", models.DateTimeField()),
                        ("subject", models.CharField(max_length=100)),
                        ("covered_s", models.PositiveSmallIntegerField(default=60)),
                        ("counters", models.JSONField(default=dict)),
                        ("gauges", models.JSONField(default=dict)),
                        ("histograms", models.JSONField(default=dict)),
                    ],
                    options={
                        "db_table": "telemetry_rollup_minute",
                        "managed": False,
                    },
                ),
            ],
        ),
    ]
