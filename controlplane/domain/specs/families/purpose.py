"""What a model is for, by the `architectures` of its config.json: whether it writes, or pools what it read into a
vector or a score. Rule of vLLM: the end of the architecture's name decides, and one that writes goes first."""

from __future__ import annotations

from controlplane.domain.specs.families.patterns import ENCODERS
from controlplane.domain.specs.fields import Fields

_WRITES = ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel")
_POOLS = (
    "ForTextEncoding", "EmbeddingModel", "ForSequenceClassification", "ForTokenClassification",
    "ForAudioClassification", "ForImageClassification", "ForVideoClassification", "ClassificationModel",
    "ForRewardModeling", "RewardModel", "Model",
)  # fmt: skip
_POOLING_NAMES = ("embedding", "reranker", "bge", "e5", "gte")  # words in names of published models


def pools(top: Fields, model_type: str) -> bool:
    """Whether it answers with vectors or scores and writes nothing. Encoders always do."""
    if model_type in ENCODERS:
        return True
    listed = top.values.get("architectures")
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list | tuple) else []
    return bool(names) and not any(name.endswith(_WRITES) for name in names) and names[0].endswith(_POOLS)


def named_for_pooling(words: list[str]) -> bool:
    """Whether the words of a published name say that it pools; files of such models may be those of a writing one."""
    return any(word in _POOLING_NAMES for word in words)
