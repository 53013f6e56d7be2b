"""The planner's form: its fields, and the question that follows from what was filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _

from controlplane.catalog import selectors as catalog
from controlplane.console import planner_load, planner_numbers
from controlplane.console.dialogs import Field, Values
from controlplane.console.planner_numbers import maker
from controlplane.deployments.planner import points
from controlplane.deployments.planner.fields import BY_NAME, MOST_FILE_BYTES, TEXTS
from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import accelerators, known_models
from controlplane.fleet import selectors as fleet

CODE = "planner_fields"  # of a refusal whose fields are told in the reader's language already
SOURCES = ("catalog", "known", "config")
MOST_CONFIG_BYTES = 256 * 1024
_OF_SOURCE = {"catalog": "variant", "known": "model", "config": "config"}
_MOST_CARDS = 40
_FLAGS = {"enforce_eager": "yes", "survive_node_loss": "yes"}


@dataclass(frozen=True, slots=True)
class Slider:
    """A number with a handle to drag. `scale`: linear or log; handle and number say the same."""

    field: Field
    low: float
    high: float
    scale: str = "linear"
    step: float = 1


def source_of(values: Values) -> str:
    """Returns where the model comes from: as chosen, else as what is filled in says."""
    if values.get("source") in SOURCES:
        return values["source"]
    return next((source for source, name in _OF_SOURCE.items() if values.get(name)), "known")


def is_asked(values: Values) -> bool:
    """Returns whether enough is filled in for an answer."""
    return bool(values.get("gpu", "").strip()) and bool(values.get(_OF_SOURCE[source_of(values)], "").strip())


def read(values: Values) -> dict[str, object]:
    """Returns the question's values; refuses, at the fields, what can't be read."""
    found: dict[str, object] = {}
    problems: dict[str, str] = {}
    left_out = planner_load.left_out(values)
    for name, number in BY_NAME.items():
        text = "" if name in left_out else values.get(name, "").strip()
        if text:
            value = planner_numbers.read(text, number)
            if value is None:
                problems[name] = planner_numbers.right(number)
            else:
                found[name] = value
    for name in set(TEXTS) - {"variant", "model"}:
        if values.get(name, "").strip():
            found[name] = values[name].strip()
    for name in ("enforce_eager", "expert_parallel"):
        if values.get(name):
            found[name] = values[name] == "true"
    for name in ("survive_node_loss", "own_measurements"):
        if values.get(name) == "false":
            found[name] = False
    source = source_of(values)
    name = _OF_SOURCE[source]
    found |= _json(values, "config", MOST_CONFIG_BYTES, problems) if source == "config" else {name: values.get(name)}
    found |= _json(values, "safetensors", MOST_FILE_BYTES, problems)
    found |= _json(values, "trace", MOST_FILE_BYTES, problems)
    if values.get("points", "").strip():
        found["points"] = points.lines(values["points"]) or values["points"]
    if problems:
        raise RefusedError(CODE, _("Some fields can't be read."), fields=problems)
    return found


def _json(values: Values, name: str, most_bytes: int, problems: dict[str, str]) -> dict[str, object]:
    text = values.get(name, "").strip()
    if not text:
        return {}
    if len(text.encode("utf-8", "replace")) > most_bytes:
        problems[name] = too_large(most_bytes)
        return {}
    try:
        value = planner_load.parse(text)
    except ValueError:
        problems[name] = _("This is not JSON that can be read. Give the whole file, from { to }.")
        return {}
    if not isinstance(value, Mapping):
        problems[name] = _("This is JSON, but not an object. Give the whole file, from { to }.")
        return {}
    return {name: value}


def too_large(most_bytes: int) -> str:
    """Returns the sentence for a file that is too large."""
    return _("This is larger than %(size)s KiB, so it is not such a file.") % {"size": f"{most_bytes // 1024:,}"}


def model_fields(values: Values) -> list[Field]:
    """Returns the fields that say which model; the chosen source's is used."""
    variants = [str(row) for row in catalog.variants()[:500]]
    chosen = values.get("variant", "")
    choices = (("", _("Choose a variant")), *((one, one) for one in variants))
    if chosen and chosen not in variants:
        choices = (*choices, (chosen, chosen))
    return [
        Field("variant", _("Model and variant"), "select", chosen, choices=choices),
        Field("model", _("Model by name"), "text", values.get("model", ""), placeholder="Llama-3.1-8B-Instruct"),
        Field(
            "config",
            "config.json",
            "area",
            values.get("config", ""),
            _("The file that lies beside the model's weights; paste all of it."),
            placeholder='{"model_type": "llama", "hidden_size": 4096, …}',
        ),
        Field("safetensors", _("Index of the weights"), "hidden", values.get("safetensors", "")),
    ]


def card_fields(values: Values) -> list[Field]:
    """Returns which cards, and how many."""
    make = maker(values)
    return [
        Field("gpu", _("Card"), "text", values.get("gpu", ""), placeholder="H100 80GB"),
        make("cards_per_node", _("Cards a node")),
        make("nodes", _("Nodes")),
    ]


def sliders(values: Values) -> list[Slider]:
    """Returns the settings that are dragged."""
    make = maker(values)
    return [
        Slider(make("max_model_len", _("Context length"), _("tokens")), 512, 1_048_576, "log", 256),
        Slider(make("max_num_seqs", _("Seats"), _("requests")), 1, 2048, "log"),
        Slider(make("gpu_memory_utilization", _("Share of GPU memory"), step="0.01"), 0.5, 0.98, "linear", 0.01),
        Slider(
            make("kv_cache_memory_gib", _("KV cache, hard cap"), "GiB", _("Takes the place of the share."), step="any"),
            0.5,
            160,
            "log",
            0.5,
        ),
    ]


def setting_fields(values: Values) -> list[Field]:
    """Returns the other settings."""
    make = maker(values)
    weights = (
        ("", _("As in the files")), ("none", "BF16"), ("fp8", "FP8"), ("int8", "INT8"), ("int4", "INT4"),
        ("nvfp4", "NVFP4"), ("mxfp4", "MXFP4"),
    )  # fmt: skip
    caches = (("", _("As the model")), ("bf16", "BF16"), ("fp8", "FP8"), ("int8", "INT8"), ("nvfp4", "NVFP4"))
    experts = (("", _("As suits best")), ("true", _("Whole on ranks")), ("false", _("Cut over the ranks")))
    graphs = (("", _("Default (on)")), ("true", _("Off: starts faster, answers more slowly")))
    return [
        Field("quantization", _("Weights"), "select", values.get("quantization", ""), choices=weights),
        Field("kv_cache_dtype", _("KV cache type"), "select", values.get("kv_cache_dtype", ""), choices=caches),
        make("tensor_parallel", _("Tensor parallel"), "", _("Empty: the best split is taken.")),
        make("pipeline_parallel", _("Pipeline parallel")),
        make("attention_copies", _("Copies of attention")),
        Field("expert_parallel", _("Experts"), "select", values.get("expert_parallel", ""), choices=experts),
        make("max_num_batched_tokens", _("Tokens a step"), _("tokens")),
        Field("enforce_eager", _("CUDA graphs"), "select", values.get("enforce_eager", ""), choices=graphs),
    ]


def card_names() -> list[str]:
    """Returns the cards that the fleet has, and then all that are known."""
    seen = fleet.accelerators().exclude(kind="cpu").values_list("name", flat=True).distinct().order_by()[:_MOST_CARDS]
    own = [found.name for name in seen if (found := accelerators.find(name))]
    return list(dict.fromkeys([*own, *accelerators.names()]))


def model_names() -> tuple[str, ...]:
    """Returns the models of the built-in table."""
    return known_models.names()
