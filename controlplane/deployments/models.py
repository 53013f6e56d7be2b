"""Deployments, their immutable revisions, and the replicas that run them."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Engine(models.TextChoices):
    VLLM = "vllm", "vLLM"
    SIMULATED = "simulated", _("Simulated")
    EXTERNAL = "external", _("External endpoint")


class DesiredState(models.TextChoices):
    RUNNING = "running", _("Running")
    DRAINED = "drained", _("Drained")  # nothing new; running requests may take long; then stopped
    STOPPED = "stopped", _("Stopped")


class ReplicaState(models.TextChoices):
    PENDING = "pending", _("Pending")
    PLACED = "placed", _("Placed")
    STARTING = "starting", _("Starting")
    WARMING = "warming", _("Warming")
    READY = "ready", _("Ready")
    DRAINING = "draining", _("Draining")
    STOPPED = "stopped", _("Stopped")
    FAILED = "failed", _("Failed")


class Deployment(models.Model):
    """A variant served by an engine with settings, under one public model name."""

    name = models.SlugField(max_length=63, unique=True)  # also the public model name
    engine = models.CharField(max_length=16, choices=Engine.choices)
    variant = models.ForeignKey("catalog.Variant", on_delete=models.PROTECT, null=True, blank=True)
    pool = models.ForeignKey("fleet.Pool", on_delete=models.PROTECT)
    desired_state = models.CharField(max_length=16, choices=DesiredState.choices, default=DesiredState.RUNNING)
    replicas_wanted = models.PositiveIntegerField(default=1)
    revision = models.ForeignKey("Revision", on_delete=models.PROTECT, null=True, related_name="+")
    frozen = models.BooleanField(default=False)  # no automatic changes
    node_labels = models.JSONField(default=dict, blank=True)  # only nodes that carry all of these are taken
    external_key = models.CharField(max_length=300, blank=True)  # secret of an external endpoint; never shown
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)
    changed_by = models.CharField(max_length=150, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)  # drained first, then removed by the controller
    version = models.PositiveIntegerField(default=1)  # the ETag

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Freeze(models.Model):
    """The switch that stops automatic changes everywhere; one row at most."""

    frozen = models.BooleanField(default=False)
    reason = models.CharField(max_length=200, blank=True)
    changed_at = models.DateTimeField(auto_now=True)
    changed_by = models.CharField(max_length=150, blank=True)
    version = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return "frozen" if self.frozen else "not frozen"


class Revision(models.Model):
    """Settings of a deployment that never change; an edit makes the next one."""

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    hash = models.CharField(max_length=64)
    # {"model_path", "served_model_name", "tensor_parallel", "pipeline_parallel", "settings": {…}, "external_url"?}
    spec = models.JSONField(default=dict)
    accelerators_per_replica = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150, blank=True)
    note = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["deployment", "-number"]
        constraints = [models.UniqueConstraint(fields=["deployment", "number"], name="one_revision_a_number")]

    def __str__(self) -> str:
        return f"{self.deployment_id} revision {self.number}"


class Replica(models.Model):
    """One engine. Its state is what its node last reported; the control plane itself moves only pending and placed."""

    id = models.CharField(primary_key=True, max_length=16)
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="replicas")
    revision = models.ForeignKey(Revision, on_delete=models.PROTECT)
    node = models.ForeignKey("fleet.Node", on_delete=models.PROTECT, null=True, blank=True, related_name="replicas")
    assigned = models.JSONField(default=list)  # AssignedAccelerator as plain values
    state = models.CharField(max_length=16, choices=ReplicaState.choices, default=ReplicaState.PENDING)
    state_since = models.DateTimeField()
    goal = models.CharField(max_length=8, default="run")  # run | stop
    drain_timeout_s = models.FloatField(default=60.0)
    key = models.CharField(max_length=64)  # secret of the engine's port; never shown
    url = models.CharField(max_length=255, blank=True)
    reason_code = models.CharField(max_length=64, blank=True)
    reason_message = models.TextField(blank=True)
    reason_hint = models.TextField(blank=True)
    log_tail = models.JSONField(default=list)
    log_path = models.CharField(max_length=500, blank=True)
    command = models.JSONField(default=list)  # argument list without secrets
    pid = models.IntegerField(null=True, blank=True)
    process_started_at = models.DateTimeField(null=True, blank=True)
    attempt = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField(null=True, blank=True)
    in_flight = models.IntegerField(null=True, blank=True)
    observed_seq = models.BigIntegerField(default=0)  # of the newest transition taken over
    facts = models.JSONField(default=dict)  # EngineFacts
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    cause = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["deployment", "created_at"]
        indexes = [models.Index(fields=["deployment", "state"], name="replica_by_state")]

    def __str__(self) -> str:
        return self.id


class PassedOver(models.Model):
    """What the last placement of a replica passed over, and why; apart, because it is long and seldom read."""

    replica = models.OneToOneField(Replica, on_delete=models.CASCADE, primary_key=True, related_name="passed_over")
    rejected = models.JSONField(default=list)  # `domain.rejections.to_plain`

    def __str__(self) -> str:
        return f"passed over for {self.replica_id}"


class ReplicaTransition(models.Model):
    """One step in a replica's history. Steps of the control plane have negative `seq`, those of the node positive."""

    replica = models.ForeignKey(Replica, on_delete=models.CASCADE, related_name="transitions")
    seq = models.BigIntegerField()
    at = models.DateTimeField()
    from_state = models.CharField(max_length=16)
    to_state = models.CharField(max_length=16)
    code = models.CharField(max_length=64)
    message = models.TextField()
    hint = models.TextField(blank=True)
    log_tail = models.JSONField(default=list)
    cause = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["replica", "at", "id"]
        constraints = [models.UniqueConstraint(fields=["replica", "seq"], name="one_transition_a_seq")]

    def __str__(self) -> str:
        return f"{self.replica_id}: {self.from_state} → {self.to_state}"


class LedgerRow(models.Model):
    """What the memory ledger said of one start, and what the engine measured. Bytes are of one accelerator.

    Outlives its replica: later predictions learn from measured rows of the same engine version, accelerator and family
    of models.
    """

    replica = models.CharField(max_length=16, unique=True)  # its id
    deployment = models.CharField(max_length=63)
    engine_version = models.CharField(max_length=32, blank=True)  # the first two numbers
    accelerator = models.CharField(max_length=100, blank=True)
    family = models.CharField(max_length=64, blank=True)
    why_unknown = models.TextField(blank=True)  # not empty: nothing could be predicted
    # {"weights_bytes", "kv_cache_bytes", "kv_cache_tokens", "parts": [{"name", "bytes"}], "fits", "sentence", …}
    predicted = models.JSONField(default=dict)
    uncorrected = models.JSONField(default=dict)  # Comparison without any correction: what is learned from
    correction = models.JSONField(default=dict)  # {"weights_ratio", "other_bytes", "observations", "sentence"}
    measured = models.JSONField(default=dict)  # {"weights_bytes", "kv_cache_bytes", "kv_cache_tokens", …}; {} = not yet
    error = models.JSONField(default=dict)  # name -> measured / predicted - 1
    claim_bytes = models.BigIntegerField(null=True, blank=True)  # reserved on each card; None = whole cards
    concurrency_ceiling = models.PositiveIntegerField(null=True, blank=True)  # min(seats, KV tokens / mean request)
    mean_request_tokens = models.PositiveIntegerField(null=True, blank=True)  # that the ceiling was worked out with
    advice = models.JSONField(default=list)  # [{"code", "field", "sentence"}]
    assumptions = models.JSONField(default=list)
    made_at = models.DateTimeField(auto_now_add=True)
    measured_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-made_at", "-id"]
        indexes = [
            models.Index(fields=["engine_version", "accelerator", "family", "measured_at"], name="ledger_by_kind")
        ]

    def __str__(self) -> str:
        return f"ledger of {self.replica}"
