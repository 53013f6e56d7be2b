"""Words for the names that are stored: states, engines, roles, kinds of objects, levels, verbs, rules, fields."""

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
    "gateway": _("Gateway process"),
    "system": _("System"),
    "tier": _("Tier"),
    "key_tier": _("Tier of the key"),
    "quota": _("Quota"),
    "share": _("Share"),
    "ladder": _("Degradation ladder"),
    "price": _("Price"),
    "slo": _("Objective"),
    "gpu": _("GPU"),
    "cpu": _("CPU cores"),
    "mixed": _("Mixed"),
    "online": _("Online"),
    "offline": _("Offline"),
    "run": _("To run"),
    "stop": _("To stop"),
    "reported": _("Reported"),
    "passed over": _("Passed over"),
    "not set": _("not set"),
    "on": _("on"),
    "off": _("off"),
}

LIMITS: dict[str, Promise] = {  # parts of a step of the latency model
    "memory": _("reading the weights"),
    "experts": _("reading the experts"),
    "kv": _("reading the KV cache"),
    "compute": _("calculation"),
    "communication": _("communication between cards"),
    "launch": _("starting kernels"),
    "host": _("the engine's own work"),
    "requests": _("the engine's own work for each request"),
    "prompts": _("prompts in between"),
    "memory for cache": _("memory for the KV cache"),
}

SUPPORT: dict[str, Promise] = {"native": _("native"), "emulated": _("unpacked"), "none": _("not supported")}

VERBS: dict[str, Promise] = {
    "api_key.created": _("API key made"),
    "api_key.revoked": _("API key revoked"),
    "controller.leads": _("Controller leads"),
    "deployment.changed": _("Deployment changed"),
    "deployment.cloned": _("Deployment cloned"),
    "deployment.created": _("Deployment made"),
    "deployment.deleted": _("Deployment deleted"),
    "deployment.drained": _("Deployment drained"),
    "deployment.frozen": _("Deployment frozen"),
    "deployment.removed": _("Deployment removed"),
    "deployment.scaled": _("Deployment scaled"),
    "deployment.started": _("Deployment started"),
    "deployment.stopped": _("Deployment stopped"),
    "deployment.unfrozen": _("Deployment unfrozen"),
    "gateway.silent": _("Gateway process silent"),
    "key_tier.changed": _("Tier of a key changed"),
    "key_tier.created": _("Tier of a key set"),
    "ladder.changed": _("Degradation ladder changed"),
    "ladder.created": _("Degradation ladder made"),
    "ladder.deleted": _("Degradation ladder removed"),
    "model.changed": _("Model changed"),
    "model.created": _("Model made"),
    "model.deleted": _("Model removed"),
    "node.accelerator_cordoned": _("Accelerator cordoned"),
    "node.accelerator_uncordoned": _("Accelerator uncordoned"),
    "node.accelerators_gone": _("Accelerators gone"),
    "node.back": _("Node is back"),
    "node.cordoned": _("Node cordoned"),
    "node.drained": _("Node drained"),
    "node.forgotten": _("Node forgotten"),
    "node.joined": _("Node joined"),
    "node.labelled": _("Labels changed"),
    "node.lost": _("Node lost"),
    "node.memory_not_back": _("Memory is not back"),
    "node.memory_released": _("Memory released"),
    "node.moved": _("Node moved"),
    "node.priced": _("Price of its cards changed"),
    "node.restarted": _("Node worker restarted"),
    "node.uncordoned": _("Node uncordoned"),
    "pool.changed": _("Pool changed"),
    "pool.created": _("Pool made"),
    "pool.deleted": _("Pool removed"),
    "price.changed": _("Price changed"),
    "price.created": _("Price made"),
    "price.deleted": _("Price removed"),
    "quota.changed": _("Quota changed"),
    "quota.created": _("Quota made"),
    "quota.deleted": _("Quota removed"),
    "replica.drained": _("Replica drained"),
    "replica.draining": _("Replica draining"),
    "replica.failed": _("Replica failed"),
    "replica.pending": _("Replica pending"),
    "replica.placed": _("Replica placed"),
    "replica.ready": _("Replica ready"),
    "replica.restarted": _("Replica restarted"),
    "replica.starting": _("Replica starting"),
    "replica.stopped": _("Replica stopped"),
    "replica.warming": _("Replica warming"),
    "share.changed": _("Share changed"),
    "share.created": _("Share made"),
    "share.deleted": _("Share removed"),
    "system.backed_up": _("Backup written"),
    "system.frozen": _("Everything frozen"),
    "system.restored": _("Backup restored"),
    "system.unfrozen": _("Automatic changes allowed"),
    "tenant.changed": _("Tenant changed"),
    "tenant.created": _("Tenant made"),
    "tenant.deleted": _("Tenant removed"),
    "slo.changed": _("Objective changed"),
    "slo.created": _("Objective set"),
    "slo.deleted": _("Objective removed"),
    "tier.changed": _("Tier changed"),
    "tier.created": _("Tier made"),
    "tier.deleted": _("Tier removed"),
    "token.created": _("Token made"),
    "token.revoked": _("Token revoked"),
    "user.changed": _("User changed"),
    "user.created": _("User made"),
    "user.deleted": _("User removed"),
    "user.logged_in": _("Logged in"),
    "user.logged_out": _("Logged out"),
    "user.login_failed": _("Login failed"),
    "user.password_changed": _("Password changed"),
    "variant.changed": _("Variant changed"),
    "variant.created": _("Variant made"),
    "variant.deleted": _("Variant removed"),
}

RULES: dict[str, Promise] = {
    "asked": _("Asked for"),
    "degrade": _("Degradation"),
    "drain_first": _("Drain first"),
    "endpoint": _("Endpoint"),
    "frozen": _("Frozen"),
    "placement": _("Placement"),
    "replace": _("Replacement"),
    "replicas": _("Number of replicas"),
    "report_refused": _("Report refused"),
    "restart": _("Restart"),
    "rollout": _("Rollout"),
    "scale": _("Scale"),
    "unknown_replica": _("Unknown replica"),
}

FIELDS: dict[str, Promise] = {
    "accelerators": _("Accelerators a replica"),
    "accelerators_per_replica": _("Accelerators a replica"),
    "architecture": _("Architecture"),
    "batch_kv_share": _("Batch may hold"),
    "completion_per_million": _("Price of a million output tokens"),
    "context_length_tokens": _("Context length"),
    "deployment": _("Deployment"),
    "description": _("Description"),
    "desired_state": _("Wanted state"),
    "display_name": _("Display name"),
    "email": _("E-mail"),
    "engine": _("Engine"),
    "external_key": _("Key"),
    "external_model": _("Model name there"),
    "external_url": _("Endpoint"),
    "family": _("Family"),
    "guaranteed": _("Guaranteed"),
    "hot": _("Hot"),
    "is_active": _("May log in"),
    "key_id": _("Key"),
    "kv_share": _("Share of the KV cache"),
    "licence": _("Licence"),
    "limits": _("Limits"),
    "longest_wait_s": _("Longest wait"),
    "model_path": _("Model files"),
    "most": _("Upper limit"),
    "name": _("Name"),
    "parameters": _("Parameters"),
    "password": _("Password"),
    "path": _("Files"),
    "pipeline_parallel": _("Pipeline parallel"),
    "precision": _("Precision"),
    "prompt_per_million": _("Price of a million prompt tokens"),
    "purpose": _("Purpose"),
    "queue_most": _("Requests that may wait"),
    "queue_most_bytes": _("Bytes that may wait"),
    "replicas": _("Replicas"),
    "role": _("Role"),
    "served_model_name": _("Served as"),
    "settings": _("Settings"),
    "size_bytes": _("Size"),
    "source": _("Source"),
    "steps": _("Steps"),
    "tensor_parallel": _("Tensor parallel"),
    "tier": _("Tier"),
    "tpot_s": _("Time per output token"),
    "total_base_s": _("Total limit, base"),
    "total_per_token_s": _("Total limit, a token"),
    "ttft_s": _("Time to first token"),
    "variant": _("Variant"),
    "weight": _("Weight"),
}


def state(name: str) -> str:
    """Returns the word for a state of a replica, a deployment or a node."""
    return str(STATES.get(name, name))


def of(name: str) -> str:
    """Returns the word for any stored name; an unknown one is shown as it is."""
    return str(STATES.get(name) or OTHERS.get(name) or name)


def verb(name: str) -> str:
    """Returns what the journal's verb says; an unknown one is shown as it is."""
    return str(VERBS.get(name, name))


def rule(name: str) -> str:
    """Returns what a rule of the system is called; an unknown one is shown as it is."""
    return str(RULES.get(name, name))


def inside(name: str) -> str:
    """Returns the word for a stored name that stands inside a sentence, however it is written there."""
    known = FIELDS.get(name) or STATES.get(name) or OTHERS.get(name) or OTHERS.get(name.lower())
    return str(known or name)


def limit(name: str) -> str:
    """Returns the word for what limits a step of the latency model."""
    return str(LIMITS.get(name, name))


def support(name: str) -> str:
    """Returns the word for how a card calculates in a precision."""
    return str(SUPPORT.get(name, name))
