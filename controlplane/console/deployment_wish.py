"""The form of a deployment: its fields, and the wish that follows from what was filled in."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _

from controlplane.catalog import selectors as catalog
from controlplane.console import label_text
from controlplane.console.dialogs import Field, Values
from controlplane.console.settings_diff import fields_of
from controlplane.deployments.models import Engine
from controlplane.deployments.wish import DeploymentWish
from controlplane.domain import labels
from controlplane.domain.desired import SettingValue, attention_copies
from controlplane.domain.errors import RefusedError
from controlplane.fleet import selectors as fleet
from engine_adapters import registry
from engine_adapters.base import SettingField

_PLACE = ("replicas", "tensor_parallel", "pipeline_parallel")


def engines() -> list[tuple[str, str, str]]:
    """Returns the engines that can be chosen: name, label, what it is for."""
    told = {
        Engine.VLLM: _("Real inference on GPUs or CPU cores. Headworks starts and watches it."),
        Engine.SIMULATED: _("A model of an engine: no weights, real timing. For trying a fleet on a laptop."),
        Engine.EXTERNAL: _("An OpenAI-compatible endpoint that already runs. Routed and metered, never started."),
    }
    return [(engine.value, str(engine.label), told[engine]) for engine in Engine if engine.value in registry.names()]


def place_fields(values: Values) -> list[Field]:
    """Returns what every managed deployment has: what is served, where, how often."""
    variants = tuple((str(row), str(row)) for row in catalog.variants())
    pools = tuple((row.name, row.name) for row in fleet.pools())
    return [
        Field("variant", _("Model and variant"), "select", values.get("variant", ""), choices=variants, required=True),
        Field("pool", _("Pool"), "select", values.get("pool", "default"), choices=pools, required=True),
        Field("replicas", _("Replicas"), "number", values.get("replicas", "1"), minimum=0, maximum=1024, required=True),
        Field(
            "tensor_parallel",
            _("Tensor parallel"),
            "number",
            values.get("tensor_parallel", "1"),
            help=_("Accelerators that share each layer."),
            minimum=1,
            maximum=64,
        ),
        Field(
            "pipeline_parallel",
            _("Pipeline parallel"),
            "number",
            values.get("pipeline_parallel", "1"),
            help=_("Groups of layers one after another."),
            minimum=1,
            maximum=64,
        ),
        Field(
            "node_labels",
            _("Labels of nodes"),
            "text",
            values.get("node_labels", ""),
            help=_("Only nodes that carry all of these are taken."),
            placeholder="disk=nvme, zone=a",
        ),
    ]


def external_fields(values: Values, *, has_key: bool = False) -> list[Field]:
    """Returns what an external endpoint needs."""
    kept = _("Leave empty to keep the stored key.") if has_key else _("Sent as bearer token; never shown again.")
    return [
        Field(
            "external_url",
            _("Base URL"),
            "text",
            values.get("external_url", ""),
            required=True,
            full=True,
            placeholder="https://host:8000/v1",
        ),
        Field(
            "external_model",
            _("Model name there"),
            "text",
            values.get("external_model", ""),
            required=True,
            help=_("As the endpoint's /v1/models lists it."),
        ),
        Field("external_key", _("Key"), "password", "", help=kept),
        Field("pool", _("Pool"), "select", values.get("pool", "default"), choices=_pool_choices()),
    ]


def setting_fields(engine: str, values: Values) -> list[Field]:
    """Returns the engine's own settings as fields; empty means the engine's default."""
    return [_setting_field(one, values.get(f"settings.{one.name}", "")) for one in fields_of(engine)]


def read(engine: str, values: Values, desired_state: str = "running") -> DeploymentWish:
    """Returns the wish that was filled in; refuses, at the field, what can't be read."""
    problems: dict[str, str] = {}
    settings = _settings(engine, values, problems)
    if engine == Engine.EXTERNAL:
        _refuse(problems)
        return DeploymentWish(
            engine=engine,
            settings=settings,
            pool=values.get("pool") or "default",
            desired_state=desired_state,
            external_url=values.get("external_url", "").strip(),
            external_model=values.get("external_model", "").strip(),
            external_key=values.get("external_key") or None,
            note=values.get("note", "").strip(),
        )
    numbers = {name: _whole(values.get(name, ""), 1, name, problems) for name in _PLACE}
    node_labels = _labels(values.get("node_labels", ""), problems)
    _refuse(problems)
    return DeploymentWish(
        engine=engine,
        variant=values.get("variant", ""),
        pool=values.get("pool") or "default",
        desired_state=desired_state,
        replicas=numbers["replicas"],
        tensor_parallel=numbers["tensor_parallel"],
        pipeline_parallel=numbers["pipeline_parallel"],
        accelerators_per_replica=numbers["tensor_parallel"] * numbers["pipeline_parallel"] * attention_copies(settings),
        settings=settings,
        node_labels=node_labels,
        note=values.get("note", "").strip(),
    )


def _refuse(problems: Mapping[str, str]) -> None:
    if problems:
        raise RefusedError("invalid", _("Some fields can't be read."), fields=problems)


def filled(wish: DeploymentWish) -> dict[str, str]:
    """Returns the form's values for a wish: what `read` turns back into it."""
    values = {
        "variant": wish.variant,
        "pool": wish.pool,
        "replicas": str(wish.replicas),
        "tensor_parallel": str(wish.tensor_parallel),
        "pipeline_parallel": str(wish.pipeline_parallel),
        "external_url": wish.external_url,
        "external_model": wish.external_model,
        "node_labels": labels.told(wish.node_labels or {}),
    }
    return values | {f"settings.{name}": _as_text(value) for name, value in wish.settings.items()}


def as_body(wish: DeploymentWish) -> dict[str, object]:
    """Returns the wish as the body of the REST call; a key is shown as a shell variable."""
    body: dict[str, object] = {"engine": wish.engine, "pool": wish.pool, "desired_state": wish.desired_state}
    body["note"] = wish.note
    if wish.engine == Engine.EXTERNAL:
        body |= {"external_url": wish.external_url, "external_model": wish.external_model}
        body |= {"settings": dict(wish.settings)} if wish.settings else {}
        return body | ({"external_key": "…"} if wish.external_key else {})
    return body | {
        "variant": wish.variant,
        "replicas": wish.replicas,
        "accelerators_per_replica": wish.accelerators_per_replica,
        "tensor_parallel": wish.tensor_parallel,
        "pipeline_parallel": wish.pipeline_parallel,
        "settings": dict(wish.settings),
        "node_labels": None if wish.node_labels is None else dict(wish.node_labels),
    }


def _pool_choices() -> tuple[tuple[str, str], ...]:
    return tuple((row.name, row.name) for row in fleet.pools())


def _setting_field(one: SettingField, value: str) -> Field:
    name = f"settings.{one.name}"
    label, text = _(one.label), _(one.help) if one.help else ""
    default = _("Default") + (f" ({_as_text(one.default)})" if one.default is not None else "")
    if one.kind == "choice":
        choices = (("", default), *((choice, choice) for choice in one.choices))
        return Field(name, label, "select", value, text, choices=choices)
    if one.kind == "bool":
        choices = (("", default), ("true", _("yes")), ("false", _("no")))
        return Field(name, label, "select", value, text, choices=choices)
    if one.kind in ("int", "float"):
        step = "1" if one.kind == "int" else "any"
        return Field(
            name,
            label,
            "number",
            value,
            text,
            minimum=one.minimum,
            maximum=one.maximum,
            step=step,
            unit=_(one.unit) if one.unit else "",
            placeholder="" if one.default is None else _as_text(one.default),
        )
    return Field(name, label, "text", value, text, full=one.name == "extra_args")


def _settings(engine: str, values: Values, problems: dict[str, str]) -> Mapping[str, SettingValue]:
    found: dict[str, SettingValue] = {}
    for one in fields_of(engine):
        text = values.get(f"settings.{one.name}", "").strip()
        if text:
            value = _setting(one, text, problems)
            if value is not None:
                found[one.name] = value
    return found


def _labels(text: str, problems: dict[str, str]) -> dict[str, str]:
    try:
        return label_text.read(text, "node_labels")
    except RefusedError as error:
        problems |= error.fields
        return {}


def _setting(one: SettingField, text: str, problems: dict[str, str]) -> SettingValue:
    try:
        if one.kind == "int":
            return int(text.replace(",", ""))
        if one.kind == "float":
            return float(text)
    except ValueError:
        problems[f"settings.{one.name}"] = _("Give a whole number.") if one.kind == "int" else _("Give a number.")
        return None
    if one.kind == "bool":
        return text == "true"
    return text


def _whole(text: str, default: int, name: str, problems: dict[str, str]) -> int:
    try:
        return int(text) if text.strip() else default
    except ValueError:
        problems[name] = _("Give a whole number.")
        return default


def _as_text(value: SettingValue) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
