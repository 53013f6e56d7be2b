"""Words for the names that are stored: states, engines, roles, kinds of objects, levels."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

STATES: dict[str, Promise] = {
    "pending": _("Pending"),
    "placed": _("Placed"),
    "starting": _("Starting"),
    "warming": _("Warming"),
    "ready": _("Ready"),
    "draining": _("Draining"),
    "stopped": _("Stopped"),
    "failed": _("Failed"),
    "degraded": _("Degraded"),
    "waiting": _("Waiting"),
    "lost": _("Lost"),
    "cordoned": _("Cordoned"),
}

OTHERS: dict[str, Promise] = {
    "vllm": "vLLM",  # type: ignore[dict-item]
    "simulated": _("Simulated"),
    "external": _("External"),
    "viewer": _("Viewer"),
    "operator": _("Operator"),
    "administrator": _("Administrator"),
    "running": _("Running"),
    "drained": _("Drained"),
    "info": _("Info"),
    "warning": _("Warning"),
    "error": _("Error"),
    "deployment": _("Deployment"),
    "replica": _("Replica"),
    "node": _("Node"),
    "pool": _("Pool"),
    "model": _("Model"),
    "variant": _("Variant"),
    "tenant": _("Tenant"),
    "api_key": _("API key"),
    "user": _("User"),
    "token": _("Token"),
    "system": _("System"),
    "gpu": _("GPU"),
    "cpu": _("CPU cores"),
    "mixed": _("Mixed"),
    "online": _("Online"),
    "offline": _("Offline"),
}


def state(name: str) -> str:
    """Returns the word for a state of a replica, a deployment or a node."""
    return str(STATES.get(name, name))


def of(name: str) -> str:
    """Returns the word for any stored name; an unknown one is shown as it is."""
    return str(STATES.get(name) or OTHERS.get(name) or name)
