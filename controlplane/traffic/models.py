"""What was used, and by what rules traffic is let in: tiers, quotas, shares, ladders, prices."""

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


class Tier(models.Model):
    """A tier as a deployment has it, or as all have it that have none of their own (no deployment)."""

    name = models.CharField(max_length=16)
    deployment = models.ForeignKey("deployments.Deployment", on_delete=models.CASCADE, null=True, related_name="tiers")
    weight = models.FloatField()
    queue_most = models.PositiveIntegerField()
    queue_most_bytes = models.PositiveBigIntegerField()
    longest_wait_s = models.FloatField()
    total_base_s = models.FloatField()
    total_per_token_s = models.FloatField()
    kv_share = models.FloatField()
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["deployment", "name"], name="one_tier_a_deployment"),
            models.UniqueConstraint(
                fields=["name"], condition=models.Q(deployment=None), name="one_tier_of_all_deployments"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class KeyTier(models.Model):
    """The tier of a key's requests, where it is not the standard one."""

    key = models.OneToOneField("accounts.ApiKey", on_delete=models.CASCADE, related_name="tier")
    tier = models.CharField(max_length=16)
    version = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return f"{self.key_id} {self.tier}"


class Quota(models.Model):
    """What a tenant may use in a time. `limits`: measure -> number (money in millionths)."""

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="quotas")
    name = models.CharField(max_length=63)
    key_id = models.BigIntegerField(null=True)  # by number, so that it stays in a backup that has no keys
    deployment = models.ForeignKey("deployments.Deployment", on_delete=models.CASCADE, null=True, related_name="quotas")
    limits = models.JSONField(default=dict)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="one_quota_of_a_name")]

    def __str__(self) -> str:
        return self.name


class Share(models.Model):
    """What part of a deployment's seats and KV tokens a tenant is guaranteed, and what it has at most."""

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="shares")
    deployment = models.ForeignKey("deployments.Deployment", on_delete=models.CASCADE, related_name="shares")
    weight = models.FloatField()
    guaranteed = models.FloatField()
    most = models.FloatField()
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["tenant", "deployment"], name="one_share_of_a_deployment")]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.deployment_id}"


class Ladder(models.Model):
    """What a deployment does less well, step by step, while it is saturated."""

    deployment = models.OneToOneField("deployments.Deployment", on_delete=models.CASCADE, related_name="ladder")
    steps = models.JSONField(default=list)
    version = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return str(self.deployment_id)


class Price(models.Model):
    """What a million tokens of a deployment cost, in the installation's currency."""

    deployment = models.OneToOneField("deployments.Deployment", on_delete=models.CASCADE, related_name="price")
    prompt_per_million = models.FloatField()
    completion_per_million = models.FloatField()
    version = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return str(self.deployment_id)


class Slo(models.Model):
    """How fast a deployment is meant to be: seats are lowered and waits are cut by it. None = nothing is promised."""

    deployment = models.OneToOneField("deployments.Deployment", on_delete=models.CASCADE, related_name="slo")
    ttft_s = models.FloatField(null=True)
    tpot_s = models.FloatField(null=True)
    version = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return str(self.deployment_id)
