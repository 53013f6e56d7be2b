"""What a backup holds, and what it leaves out and why. Every model of the control plane is in exactly one list."""

from __future__ import annotations

FORMAT = "headworks-backup"
VERSION = 1

# in the order in which they are restored
KEPT = (
    "accounts.User",
    "accounts.ApiToken",
    "accounts.Tenant",
    "accounts.ApiKey",
    "catalog.Model",
    "catalog.Variant",
    "fleet.Pool",
    "fleet.Node",
    "fleet.Accelerator",
    "deployments.Deployment",
    "deployments.Revision",
    "deployments.Freeze",
    "deployments.LedgerRow",
    "traffic.Tier",
    "traffic.KeyTier",
    "traffic.Quota",
    "traffic.Share",
    "traffic.Ladder",
    "traffic.Price",
    "traffic.Slo",
    "traffic.UsageMinute",
    "traffic.UsageCursor",
    "traffic.UsageBatch",
    "journal.Event",
    "journal.Decision",
)

TELEMETRY = ("telemetry.RollupMinute",)  # only when asked for

SESSIONS = ("sessions.Session",)  # of people who may not be the same afterwards

LEFT_OUT = {
    "accounts.LoginBackoff": "counts failed logins of the last minutes",
    "deployments.Replica": "engines that run now; a restored control plane starts its own",
    "deployments.PassedOver": "belongs to replicas",
    "deployments.ReplicaTransition": "belongs to replicas",
    "fleet.Reservation": "belongs to replicas",
    "fleet.ModelFiles": "nodes look again",
}

# rows that are nothing without their secret, left out of a backup without secrets
SECRET_ROWS = frozenset({"accounts.ApiToken", "accounts.ApiKey", "traffic.KeyTier"})

# model -> column -> what a backup without secrets has instead
SECRET_COLUMNS: dict[str, dict[str, str]] = {
    "accounts.User": {"password": "!"},  # "!" is no password at all
    "deployments.Deployment": {"external_key": ""},
}
