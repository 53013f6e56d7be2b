"""Nodes, their accelerators, pools, and who holds how much of which accelerator."""

from __future__ import annotations

from django.db import models


class Pool(models.Model):
    """A named group of nodes."""

    class Purpose(models.TextChoices):
        ONLINE = "online"
        OFFLINE = "offline"
        MIXED = "mixed"

    class Strategy(models.TextChoices):
        SPREAD = "spread"  # replicas apart from one another, on cards of their own while there are any
        PACK = "pack"  # what is begun is filled first, so that whole nodes and cards stay free

    name = models.SlugField(max_length=63, unique=True)
    purpose = models.CharField(max_length=16, choices=Purpose.choices, default=Purpose.MIXED)
    hot = models.BooleanField(default=True)
    strategy = models.CharField(max_length=8, choices=Strategy.choices, default=Strategy.SPREAD)
    # the most of a replica's KV tokens that the batch tier may hold; None = as the tier says
    batch_kv_share = models.FloatField(null=True)
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
    labels = models.JSONField(default=dict, blank=True)  # name -> value; deployments may ask for some
    card_price_per_hour = models.FloatField(null=True, blank=True)  # of one accelerator; None = a typical rent is taken
    topology = models.JSONField(null=True, blank=True)  # the Topology of the newest report; None = not told
    desired_at = models.DateTimeField(null=True, blank=True)  # when the newest desired document was made
    files_looked_at = models.DateTimeField(null=True, blank=True)  # when it looked for model files; None = it does not
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


class ModelFiles(models.Model):
    """What a node has of a model's files, as it saw them at `Node.files_looked_at` (`domain.model_files`)."""

    class State(models.TextChoices):
        PRESENT = "present"
        PARTLY = "partly"
        ABSENT = "absent"
        UNKNOWN = "unknown"  # it could not be read

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="model_files")
    location = models.CharField(max_length=500)  # a path on the node, or a name on the Hub
    state = models.CharField(max_length=8, choices=State.choices)
    size_bytes = models.BigIntegerField(default=0)  # of the weight files that are there
    missing = models.PositiveIntegerField(default=0)  # weight files that belong to it and are not there whole
    reason = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["node", "location"]
        constraints = [models.UniqueConstraint(fields=["node", "location"], name="one_look_a_location")]
        indexes = [models.Index(fields=["location"], name="model_files_location")]

    def __str__(self) -> str:
        return f"{self.node_id} has {self.location}: {self.state}"


class Reservation(models.Model):
    """Memory of an accelerator that an owner holds, from its placement until the memory is seen to be back, or until a
    person releases what did not come back.

    `memory_bytes` None = the whole accelerator. Rows of one accelerator are written under its row lock only, so that
    what is reserved, what others use and what is free always add up to its memory (`domain.card_memory`).
    """

    accelerator = models.ForeignKey(Accelerator, on_delete=models.CASCADE, related_name="reservations")
    owner_kind = models.CharField(max_length=16, default="replica")
    owner_id = models.CharField(max_length=32, db_index=True)
    memory_bytes = models.BigIntegerField(null=True, blank=True)
    releasing_since = models.DateTimeField(null=True, blank=True)  # its owner has ended; the memory is not back yet
    not_back_since = models.DateTimeField(null=True, blank=True)  # it did not come back in time, which was told then
    not_back_bytes = models.BigIntegerField(null=True, blank=True)  # so much at most, by the newest reading
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["accelerator", "owner_kind", "owner_id"], name="one_reservation_an_owner"),
            models.UniqueConstraint(
                fields=["accelerator"], condition=models.Q(memory_bytes=None), name="one_whole_reservation"
            ),
            models.CheckConstraint(
                condition=models.Q(memory_bytes=None) | models.Q(memory_bytes__gt=0), name="reservation_above_0"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.accelerator_id} held by {self.owner_kind} {self.owner_id}"
