"""Models (architecture facts) and their variants (precision and files)."""

from __future__ import annotations

from django.db import models


class Model(models.Model):
    """A language model, independent of precision. `architecture` holds facts of its config.json."""

    name = models.SlugField(max_length=100, unique=True)
    display_name = models.CharField(max_length=200)
    family = models.CharField(max_length=64, blank=True)
    parameters = models.BigIntegerField(null=True, blank=True)
    context_length_tokens = models.PositiveIntegerField(null=True, blank=True)
    licence = models.CharField(max_length=64, blank=True)
    source = models.CharField(max_length=300, blank=True)
    architecture = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Variant(models.Model):
    """One precision of a model and where its files are: a folder on the nodes, or a name that the engine resolves."""

    model = models.ForeignKey(Model, on_delete=models.PROTECT, related_name="variants")
    name = models.SlugField(max_length=63)
    precision = models.CharField(max_length=32, default="bf16")
    path = models.CharField(max_length=500)
    size_bytes = models.BigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["model", "name"]
        constraints = [models.UniqueConstraint(fields=["model", "name"], name="one_variant_a_name")]

    def __str__(self) -> str:
        return f"{self.model.name}/{self.name}"
