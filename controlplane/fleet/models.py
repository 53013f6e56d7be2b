"""Nodes, their accelerators, pools, and which accelerator is taken by whom."""

from __future__ import annotations

from django.db import models


class Pool(models.Model):
    """A named group of nodes."""

    class Purpose(models.TextChoices):
        ONLINE = "online"
        OFFLINE = "offline"
        MIXED = "mixed"

    name = models.SlugField(max_length=63, unique=True)
    purpose = models.CharField(max_length=16, choices=Purpose.choices, default=Purpose.MIXED)
    hot = models.BooleanField(default=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Node(models.Model):
    """A machine with a node worker. Rows appear with the first report; facts are overwritten by each report."""

    name = models.CharField(max_length=63, unique=True)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="nodes")
    address = models.CharField(max_length=255, blank=True)
    simulated = models.BooleanField(default=False)
    cordoned = models.BooleanField(default=False)  # nothing new is placed here
    cordon_reason = models.CharField(max_length=200, blank=True)
    draining = models.BooleanField(default=False)  # cordoned, and its replicas are moved away
    last_report_at = models.DateTimeField(null=True, blank=True)
    incarnation = models.CharField(max_length=32, blank=True)
    report_sequence = models.BigIntegerField(default=0)
    desired_version = models.BigIntegerField(default=0)  # of the newest desired document
    carried_out_version = models.BigIntegerField(default=0)  # of the one the node has carried out
    desired_hash = models.CharField(max_length=64, blank=True)
    cpu_count = models.PositiveIntegerField(null=True, blank=True)
    memory_total_bytes = models.BigIntegerField(null=True, blank=True)
    memory_available_bytes = models.BigIntegerField(null=True, blank=True)
    engines = models.JSONField(default=dict)  # engine -> version
    lost = models.BooleanField(default=False)  # no report for NODE_LOST_AFTER_S
    machine = models.CharField(max_length=64, blank=True)  # whose reports count under this name
    starts = models.BigIntegerField(default=0)  # of the worker on that machine
    clock_ahead_s = models.FloatField(null=True, blank=True)  # its clock against Valkey's; negative = behind
    desired_at = models.DateTimeField(null=True, blank=True)  # when the newest desired document was made
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Accelerator(models.Model):
    """A card, or a group of CPU cores, of a node."""

    class Kind(models.TextChoices):
        GPU = "gpu"
        CPU = "cpu"
        SIMULATED = "simulated"

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="accelerators")
    uuid = models.CharField(max_length=100)
    index = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=Kind.choices)
    name = models.CharField(max_length=100)
    address = models.CharField(max_length=1000)  # what an engine is told: a CUDA uuid, or a list of cores
    memory_total_bytes = models.BigIntegerField(null=True, blank=True)
    cordoned = models.BooleanField(default=False)
    present = models.BooleanField(default=True)  # in the newest report
    observed = models.JSONField(default=dict)  # the AcceleratorObserved of the newest report

    class Meta:
        ordering = ["node", "index"]
        constraints = [models.UniqueConstraint(fields=["node", "uuid"], name="one_accelerator_a_uuid")]

    def __str__(self) -> str:
        return f"{self.node.name}/{self.index}"


class Reservation(models.Model):
    """An accelerator that is taken by a replica, from its placement until the node has seen its process group gone."""

    accelerator = models.OneToOneField(Accelerator, on_delete=models.CASCADE, related_name="reservation")
    owner_kind = models.CharField(max_length=16, default="replica")
    owner_id = models.CharField(max_length=32, db_index=True)
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.accelerator_id} held by {self.owner_kind} {self.owner_id}"
