"""Who did what, and what the system decided by itself. Refers to other objects by kind and id, never by key."""

from __future__ import annotations

from django.db import models


class Event(models.Model):
    """Something that a person, a token or the system did."""

    class ActorKind(models.TextChoices):
        USER = "user"
        TOKEN = "token"  # noqa: S105
        SYSTEM = "system"

    at = models.DateTimeField(db_index=True)
    actor_kind = models.CharField(max_length=16, choices=ActorKind.choices)
    actor = models.CharField(max_length=150)  # a username, or which part of the system
    verb = models.CharField(max_length=64)  # deployment.created, replica.failed, …
    object_kind = models.CharField(max_length=32)
    object_id = models.CharField(max_length=200)
    object_name = models.CharField(max_length=200, blank=True)
    deployment = models.CharField(max_length=63, blank=True)  # that it concerns, such as the one of a replica
    message = models.TextField()
    numbers = models.JSONField(default=dict)
    level = models.CharField(max_length=8, default="info")  # info | warning | error
    cause = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [
            models.Index(fields=["object_kind", "object_id", "-at"], name="event_by_object"),
            models.Index(fields=["deployment", "-at"], name="event_by_deployment"),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.object_name}"


class Decision(models.Model):
    """A change of state that the system made by itself, from which numbers and why; repeats are coalesced."""

    first_at = models.DateTimeField()
    last_at = models.DateTimeField(db_index=True)
    count = models.PositiveIntegerField(default=1)
    rule = models.CharField(max_length=64)  # placement, restart, replace, leader, …
    object_kind = models.CharField(max_length=32)
    object_id = models.CharField(max_length=200)
    object_name = models.CharField(max_length=200, blank=True)
    deployment = models.CharField(max_length=63, blank=True)  # that it concerns, such as the one of a replica
    before = models.CharField(max_length=200, blank=True)
    after = models.CharField(max_length=200, blank=True)
    why = models.TextField()
    numbers = models.JSONField(default=dict)
    cause = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["-last_at", "-id"]
        indexes = [
            models.Index(fields=["object_kind", "object_id", "-last_at"], name="decision_by_object"),
            models.Index(fields=["deployment", "-last_at"], name="decision_by_deployment"),
        ]

    def __str__(self) -> str:
        return f"{self.rule}: {self.before} → {self.after}"
