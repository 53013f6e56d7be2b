"""What was used: one row a minute, tenant, key and deployment."""

from __future__ import annotations

from django.db import models


class UsageMinute(models.Model):
    """Requests and tokens of one minute. Objects are named by id, so that usage outlives them."""

    minute = models.DateTimeField()
    tenant = models.CharField(max_length=63)
    key_id = models.CharField(max_length=32)
    deployment = models.CharField(max_length=63)
    requests = models.BigIntegerField(default=0)
    errors = models.BigIntegerField(default=0)
    prompt_tokens = models.BigIntegerField(default=0)
    completion_tokens = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["-minute", "id"]
        constraints = [
            models.UniqueConstraint(fields=["minute", "tenant", "key_id", "deployment"], name="one_usage_row_a_minute")
        ]

    def __str__(self) -> str:
        return f"{self.minute} {self.tenant} {self.deployment}"


class UsageCursor(models.Model):
    """How far the usage stream has been taken over, so that a batch is counted once."""

    stream = models.CharField(max_length=100, primary_key=True)
    last_id = models.CharField(max_length=40, default="0-0")

    def __str__(self) -> str:
        return f"{self.stream} {self.last_id}"


class UsageBatch(models.Model):
    """A batch that was counted, so that a gateway may send it again when it does not know that it arrived."""

    batch_id = models.CharField(max_length=32, primary_key=True)
    taken_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.batch_id
