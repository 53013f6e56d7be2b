"""Models that answer with a vector or a score: encoders keep nothing for a request, and none of them samples."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.ledger import result
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.specs import config_json, known_models
from controlplane.domain.specs.model import ModelFacts
from tests.domain.ledger.setups import make_card, make_setup

GIB = 2**30
WIDTHS: dict[str, Any] = {
    "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "head_dim": 128,
    "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 151936, "max_position_embeddings": 32768,
}  # fmt: skip


def find(name: str) -> ModelFacts:
    model = known_models.find(name)
    assert model is not None
    return model


def work_out(model: ModelFacts, **wishes: Any) -> Ledger:
    return result.work_out(make_setup(model, **wishes))


def test_an_encoder_keeps_no_cache_and_holds_no_chats() -> None:
    ledger = work_out(find("BAAI/bge-m3"))
    assert ledger.verdict.fits
    assert "encoder that keeps no cache" in ledger.verdict.sentence
    assert (ledger.needed_bytes, ledger.available_bytes) == (0, 0)
    assert (ledger.blocks, ledger.tokens, ledger.concurrency(512)) == (None, None, None)
    assert not any(part.name == "kv_cache" for part in ledger.budget.parts)


def test_an_encoder_that_is_larger_than_the_card_does_not_fit() -> None:
    ledger = work_out(find("BAAI/bge-m3"), card=make_card(1.0))
    assert ledger.verdict.fits is False
    assert ledger.verdict.reason == "weights"


def test_nothing_but_the_batch_limits_requests_to_an_encoder() -> None:
    assert work_out(find("BAAI/bge-large-en-v1.5"), max_num_seqs=64).concurrency_ceiling(512) == 64


def test_a_model_that_pools_samples_nothing() -> None:
    writes, pools = (
        work_out(config_json.read({**WIDTHS, "architectures": [name]}))
        for name in ("Qwen3ForCausalLM", "Qwen3ForSequenceClassification")
    )
    assert writes.budget.activation.reason == "the sampler's logits of a full batch"
    assert pools.budget.activation_bytes < writes.budget.activation_bytes
    assert pools.needed_bytes == writes.needed_bytes  # a decoder that pools still caches prefixes and chunks


@pytest.mark.parametrize(
    ("architectures", "pools"),
    [
        (["Qwen3ForCausalLM"], False),
        (["Qwen2_5_VLForConditionalGeneration"], False),
        (["ChatGLMModel", "ChatGLMForConditionalGeneration"], False),
        (["QWenLMHeadModel"], False),
        (["BertModel"], True),
        (["MistralModel"], True),
        (["Qwen2ForSequenceClassification"], True),
        (["LlamaForRewardModeling"], True),
        ([], False),
        (None, False),
        ("BertModel", False),
        ([7], False),
    ],
)
def test_the_architecture_says_what_a_model_is_for(architectures: object, pools: bool) -> None:
    assert config_json.read({**WIDTHS, "architectures": architectures}).pools is pools


@pytest.mark.parametrize("name", ["Qwen/Qwen3-Embedding-8B", "Qwen/Qwen3-Reranker-4B", "BAAI/bge-reranker-v2-m3"])
def test_that_it_pools_is_told_of_known_models(name: str) -> None:
    assert any("It pools" in sentence for sentence in work_out(find(name)).assumptions)


def test_a_model_that_writes_is_not_said_to_pool() -> None:
    assert not any("It pools" in sentence for sentence in work_out(find("Qwen/Qwen3-8B")).assumptions)
