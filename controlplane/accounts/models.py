"""People, their roles and tokens; tenants and the API keys of applications."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils.translation import gettext_lazy as _


class Role(models.TextChoices):
    VIEWER = "viewer", _("Viewer")  # reads
    OPERATOR = "operator", _("Operator")  # also changes deployments, nodes, models
    ADMINISTRATOR = "administrator", _("Administrator")  # also people, tenants, keys, tokens


ROLE_RANK: dict[str, int] = {Role.VIEWER: 0, Role.OPERATOR: 1, Role.ADMINISTRATOR: 2}


class User(AbstractUser):
    """A person who uses the console."""

    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER)
    version = models.PositiveIntegerField(default=1)

    def has_role(self, role: str) -> bool:
        """Returns whether the person may do what `role` may do."""
        return self.is_active and ROLE_RANK[self.role] >= ROLE_RANK[role]


class ApiToken(models.Model):
    """A bearer token for REST. Acts as its user, limited to `role`. Only the hash is kept."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)  # the first characters, to recognise it
    token_hash = models.CharField(max_length=64, unique=True)
    role = models.CharField(max_length=16, choices=Role.choices)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def has_role(self, role: str) -> bool:
        """Returns whether the token itself allows what `role` may do; its user must have the role as well."""
        return ROLE_RANK[self.role] >= ROLE_RANK[role]


class LoginBackoff(models.Model):
    """Failed logins of one account from one address, or of one address. The key is a keyed hash: names do not leak."""

    key = models.CharField(max_length=64, primary_key=True)
    failures = models.PositiveIntegerField(default=0)
    blocked_until = models.DateTimeField()
    last_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.failures} failures until {self.blocked_until}"


class Tenant(models.Model):
    """A team whose applications send requests."""

    name = models.SlugField(max_length=63, unique=True)
    description = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class ApiKey(models.Model):
    """A key of the gateway. Only the hash is kept; `deployments` null = every deployment."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    key_hash = models.CharField(max_length=64, unique=True)
    deployments = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"
