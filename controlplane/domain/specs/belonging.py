"""Whether weight files are those of the model that a config.json describes: by layers, experts and size.

Files of another model would give a sum that looks exact and is wrong. What differs by far is refused; what differs by
more than rounding and padding explain is told.
"""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import precision, tensor_names
from controlplane.domain.specs.model import ModelFacts

_UNTOLD_DRAFT_LAYERS = 1  # some configs do not tell of the layer that guesses further tokens
_SLACK_BYTES = 2**20
_TOLD, _REFUSED = 0.02, 0.10  # deviation of the total, of files that are not quantized
_TOLD_QUANTIZED, _REFUSED_QUANTIZED = 0.10, 0.35  # which parts stay unquantized differs from file to file
_TOLD_UNKNOWN = 1.0  # of families whose parameters are counted by guess


def check(facts: ModelFacts, names: Iterable[str], total_bytes: int) -> str:
    """What has to be told of the files, "" where they agree. Raises RefusedError (code safetensors) where tensors or
    their total belong to another model. `names` may be some of the tensors, the last layer's among them."""
    known = list(names)
    _check_layers(facts, known)
    if facts.experts is None and any(tensor_names.part(name) == "routed_experts" for name in known):
        raise _other(
            "weight_map",
            "The files hold experts, config.json describes none: they are of two models.",
            "files without any",
        )
    return _total(facts, known, total_bytes)


def _check_layers(facts: ModelFacts, names: list[str]) -> None:
    numbers = [tensor_names.layer(name) for name in names if tensor_names.part(name) in ("rest", "replicated", "draft")]
    found = max((number + 1 for number in numbers if number is not None), default=None)
    if found is None or not facts.num_hidden_layers:
        return
    drafts = max(sum(layer.count for layer in facts.draft_layers), _UNTOLD_DRAFT_LAYERS)
    if not facts.num_hidden_layers <= found <= facts.num_hidden_layers + drafts:
        sentence = (
            f"The files hold {found} layers, config.json describes {facts.num_hidden_layers}: they are of two models."
        )
        raise _other("weight_map", sentence, f"tensors of {facts.num_hidden_layers} layers")


def _total(facts: ModelFacts, names: list[str], total_bytes: int) -> str:
    kinds = precision.parse(None, None, None, facts)
    least = kinds.weight_bytes(facts)
    most = least + kinds.part_bytes(facts).draft_bytes
    if facts.tie_word_embeddings:
        most += facts.embedding_parameters * kinds.plain_bytes  # a second copy of the embedding
    told, refused = (_TOLD_QUANTIZED, _REFUSED_QUANTIZED) if kinds.quantized else (_TOLD, _REFUSED)
    if any("not known" in sentence or "left out" in sentence for sentence in facts.assumptions):
        refused = _TOLD_UNKNOWN
    deviation = _deviation(total_bytes, least, most)
    if not kinds.quantized and deviation > _REFUSED:
        deviation = min(deviation, _deviation(total_bytes, 2 * least, 2 * most))  # files in 32 bits
    if deviation > refused:
        files, own = total_bytes / 1e9, least / 1e9
        right = f"about {least} bytes, {facts.parameters / 1e9:.2f} billion parameters in {kinds.weights.label}"
        sentence = f"The files are {files:.2f} GB, config.json makes {own:.2f} GB: they are of two models."
        raise _other("metadata.total_size", sentence, right)
    if deviation <= told:
        return ""
    return (
        f"The files are {total_bytes / 1e9:.2f} GB, config.json makes {least / 1e9:.2f} GB: check that both are of one "
        "model."
    )


def _deviation(total_bytes: int, least: int, most: int) -> float:
    """Relative, from the nearer end of what may be."""
    beyond = max(least - total_bytes, total_bytes - most, 0)
    return 0.0 if beyond <= _SLACK_BYTES else beyond / max(least, 1)


def _other(field: str, sentence: str, right: str) -> RefusedError:
    return RefusedError("safetensors", sentence, hint=f"{field}: {right}", fields={field: right})
