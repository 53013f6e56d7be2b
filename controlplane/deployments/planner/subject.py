"""Which model a question is about: facts of a variant of the catalog, of the built-in table, or of a config.json."""

from __future__ import annotations

from dataclasses import dataclass, replace

from controlplane.catalog import selectors as catalog
from controlplane.catalog.models import Variant
from controlplane.deployments.planner.inputs import Inputs
from controlplane.deployments.services import model_facts
from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import config_json, known_models, safetensors_index, tensor_names
from controlplane.domain.specs.fields import shown
from controlplane.domain.specs.model import ModelFacts


@dataclass(frozen=True, slots=True)
class Subject:
    """A model. `variant` is its address in the catalog, "" where it is not from there; `quantization` and
    `dtype` what its files are stored in, where the catalog says it."""

    facts: ModelFacts
    variant: str = ""
    quantization: str = ""
    dtype: str = ""


def find(inputs: Inputs) -> Subject:
    """The model that is asked about. Raises RefusedError naming `variant`, `model`, `config` or `safetensors`."""
    subject = _model(inputs)
    if inputs.safetensors is None:
        return subject
    try:
        files = safetensors_index.read(inputs.safetensors)
        return replace(subject, facts=safetensors_index.with_files(subject.facts, files))
    except RefusedError as refused:
        raise _at("safetensors", refused) from None


def _model(inputs: Inputs) -> Subject:
    if inputs.variant:
        model, _, name = inputs.variant.partition("/")
        try:
            return of_variant(catalog.variant(model, name))
        except RefusedError as refused:
            raise _at("variant", refused) from None
    if inputs.config is not None:
        try:
            return Subject(config_json.read(inputs.config, name="config.json"))
        except RefusedError as refused:
            raise _at("config", refused) from None
    found = known_models.find(inputs.model)
    if found is None:
        sentence = f"{shown(inputs.model)} is not a model that is known here."
        right = "Choose one of the list, or give its config.json."
        raise RefusedError("unknown_model", sentence, hint=right, fields={"model": right})
    return Subject(found)


def of_variant(variant: Variant) -> Subject:
    """Facts of a variant: of its files where they can be read here, of the catalog, or by name.

    Raises RefusedError naming `variant` where none says enough.
    """
    known = model_facts.of_variant(variant, variant.path)
    if isinstance(known, str):
        right = "Store the config.json as the model's architecture, or paste it into the planner."
        raise RefusedError("unknown_model", f"{known[0].upper()}{known[1:]}.", hint=right, fields={"variant": right})
    facts = replace(known.facts, name=variant.model.display_name or variant.model.name)
    quantization = model_facts.quantization_of(known, variant) or ""
    return Subject(
        facts, f"{variant.model.name}/{variant.name}", quantization, model_facts.dtype_of(known, variant) or ""
    )


def _at(field: str, refused: RefusedError) -> RefusedError:
    """The same refusal, told at the field that people filled in."""
    right = "; ".join(f"{name}: {text}" for name, text in refused.fields.items()) or refused.hint
    return RefusedError(refused.code, refused.message, hint=refused.hint, fields={field: right or refused.message})


def reduced(index_or_headers: object) -> dict[str, object]:
    """An index that says as much as a large one does: its total, and whether draft layers are in it.

    Raises RefusedError naming `safetensors`.
    """
    try:
        files = safetensors_index.read(index_or_headers)
    except RefusedError as refused:
        raise _at("safetensors", refused) from None
    last = max(files.names, key=lambda name: -1 if tensor_names.layer(name) is None else tensor_names.layer(name) or 0)
    drafts = [name for name in files.names if tensor_names.part(name) == "draft"][:1]
    kept = dict.fromkeys([last, *drafts], "")
    return {"metadata": {"total_size": files.total_bytes}, "weight_map": kept}
