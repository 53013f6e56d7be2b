from __future__ import annotations

import pytest

from controlplane.domain.footprint import cards, kv, sparse_latent
from controlplane.domain.footprint.engine_rules import rules_for
from controlplane.domain.ledger import setup
from controlplane.domain.ledger.setup import Wishes
from controlplane.domain.specs import known_models, precision

V32, GLM = "DeepSeek-V3.2", "GLM-5"


def kept(model: str, asked: str | None, version: str, capability: str | None = "9.0") -> str:
    facts = known_models.find(model)
    assert facts is not None
    wanted = precision.parse(None, None, asked, facts).kv
    return sparse_latent.of_engine(wanted, rules_for(version), capability, facts.family)[0].name


@pytest.mark.parametrize(
    ("model", "asked", "version", "capability", "name"),
    [
        (V32, None, "0.11.0", "9.0", "fp8_ds_mla"),
        (V32, "auto", "0.11.2", "10.0", "fp8_ds_mla"),
        (V32, "bfloat16", "0.11.0", "9.0", "bf16"),
        (V32, None, "0.13.0", "9.0", "bf16"),
        (V32, None, "0.32.0", "9.0", "bf16"),
        (V32, "fp8", "0.32.0", "9.0", "fp8_ds_mla"),
        (V32, "fp8_e4m3", "0.17.0", "10.0", "fp8_ds_mla"),
        (V32, "fp8_e4m3", "0.18.0", "10.0", "fp8"),
        (V32, "fp8_ds_mla", "0.32.0", "10.0", "fp8_ds_mla"),
        (V32, None, "0.32.0", "12.0", "fp8_ds_mla"),
        (V32, None, "0.32.0", None, "bf16"),
        (GLM, None, "0.32.0", "10.0", "fp8"),
        (GLM, None, "0.32.0", "9.0", "bf16"),
        (GLM, "bf16", "0.32.0", "10.0", "bf16"),
        ("DeepSeek-V3", None, "0.11.0", "9.0", "bf16"),
        ("DeepSeek-V3", "fp8", "0.32.0", "10.0", "fp8"),
    ],
)
def test_the_layout_goes_by_version_card_and_wish(
    model: str, asked: str | None, version: str, capability: str | None, name: str
) -> None:
    assert kept(model, asked, version, capability) == name


def test_a_default_that_nobody_chose_is_an_assumption() -> None:
    facts = known_models.find(V32)
    assert facts is not None
    wanted, card = precision.parse(None, None, None, facts), cards.resolve("H200", None)
    found = setup.resolve(facts, wanted, card, rules_for("0.11.0"), Wishes(tensor_parallel=8))
    assert found.precision.kv.name == "fp8_ds_mla"
    assert any("fp8_ds_mla is the default of 0.11" in note for note in found.assumptions)


def test_layers_that_share_a_choice_of_tokens_keep_no_indexers_keys() -> None:
    """GLM-5.2 with its draft layer: 54,728 bytes a token were reported of a real start in fp8_ds_mla."""
    facts = known_models.find("GLM-5.2")
    assert facts is not None
    assert sum(layer.count for layer in facts.layers if layer.indexer_elements) == 21
    wanted = precision.parse(None, None, "fp8", facts).kv
    layers = (*facts.layers, *facts.draft_layers)
    found = kv.buckets(layers, tensor_parallel=4, precision=wanted, rules=rules_for("0.32.0"))
    assert sum(bucket.layers * bucket.token_bytes for bucket in found) == 54_728
    whole = known_models.find("GLM-5.1")
    assert whole is not None
    assert facts.parameters < whole.parameters
