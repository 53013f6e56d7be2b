"""An endpoint that somebody else runs: what is wrong with its address and model name."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from controlplane.domain import addresses
from controlplane.domain.desired import SettingValue
from engine_adapters.base import SettingField, SettingProblem
from engine_adapters.checks import check_fields

# the endpoint is set up by whoever runs it; these say what it is, so that the gateway may tell it what only vLLM knows
FIELDS: tuple[SettingField, ...] = (
    SettingField(
        "is_vllm", "bool", "It is vLLM",
        "Requests carry their tenant's salt, so that no tenant can time another's prefixes. Others may refuse it.",
    ),
    SettingField(
        "scheduling_policy", "choice", "Order in the engine",
        "What it was started with. priority: requests carry that of their tier.",
        default="fcfs", choices=("fcfs", "priority"),
    ),
)  # fmt: skip


def validate(settings: Mapping[str, SettingValue]) -> list[SettingProblem]:
    """Returns what is wrong with the settings."""
    problems = check_fields(FIELDS, settings)
    if not problems and settings.get("scheduling_policy") == "priority" and settings.get("is_vllm") is not True:
        problems.append(SettingProblem("scheduling_policy", "Only vLLM takes priorities: say that it is vLLM as well."))
    return problems


def check_endpoint(url: str, model: str, key: str = "") -> list[SettingProblem]:
    """Returns what is wrong with an endpoint, by the names that a deployment's wish has for its parts."""
    checks = {
        "external_url": url_problem(url),
        "external_model": model_problem(model),
        "external_key": key_problem(key),
    }
    return [SettingProblem(name, message) for name, message in checks.items() if message]


def url_problem(url: str) -> str:
    """Returns why a URL can't be an endpoint's address, the empty text when it can."""
    example = "Give an address such as http://10.0.0.5:8000."
    if not url or any(ord(character) <= 32 or ord(character) == 127 for character in url):
        return example
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return example
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return example
    if parts.username is not None or parts.password is not None:
        return "Give the key in its own field, not in the address."
    if parts.query or parts.fragment:
        return "Leave out everything from ? or # on."
    # a name, or an address in another spelling, leads where it leads only when it is used, and is looked at then
    return "This address is no place for an endpoint." if addresses.is_forbidden(parts.hostname) else ""


def base_url(url: str) -> str:
    """Returns the address in front of `/v1`, however much of it was given: `http://h:1/v1/` is `http://h:1`."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc.lower()}{path}"


def api_url(url: str) -> str:
    """Returns the one spelling of an endpoint's address, with `/v1`, as SDKs take it: `http://h:1` is
    `http://h:1/v1`."""
    return f"{base_url(url)}/v1"


def model_problem(model: str) -> str:
    """Returns why a text can't be the endpoint's model name, the empty text when it can."""
    if not model.strip():
        return "Give the model's name as the endpoint lists it under /v1/models."
    if len(model) > 200 or any(ord(character) < 32 or ord(character) == 127 for character in model):
        return "A model's name is one line of at most 200 characters."
    return ""


def key_problem(key: str) -> str:
    """Returns why a text can't be sent as a bearer token, the empty text when it can. No key is fine."""
    if any(not 33 <= ord(character) <= 126 for character in key):
        return "A key has neither spaces nor characters outside ASCII."
    return ""
