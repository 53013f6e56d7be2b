"""One-minute roll-ups. The table is partitioned by day (see the migration); percentiles are never stored."""

from __future__ import annotations

from django.db import models


class RollupMinute(models.Model):
    """Counters, gauges and bucket counts of one subject in one minute, merged over all producers."""

    pk = models.CompositePrimaryKey("minute", "subject")
    minute = models.DateTimeField()
    subject = models.CharField(max_length=100)
    covered_s = models.PositiveSmallIntegerField(default=60)  # seconds of the minute that have data
    counters = models.JSONField(default=dict)  # requests, errors, prompt_tokens, output_tokens
    gauges = models.JSONField(default=dict)  # field -> [mean, maximum]
    histograms = models.JSONField(default=dict)  # ttft, tpot, e2e -> {bucket: count}

    class Meta:
        managed = False
        db_table = "telemetry_rollup_minute"

    def __str__(self) -> str:
        return f"{self.minute} {self.subject}"
