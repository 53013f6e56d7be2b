from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.footprint import weights
from controlplane.domain.footprint.weights import WeightShare
from controlplane.domain.specs import known_models, precision
from controlplane.domain.specs.model import ModelFacts
from tests.domain.ledger.setups import make_latent_model, make_model, make_window_model

GIB = 2**30


def make_share(
    model: ModelFacts, *, quantization: str | None = None, tensor_parallel: int = 1, **given: Any
) -> WeightShare:
    kinds = precision.parse(None, quantization, None, model)
    return weights.share(model, kinds, tensor_parallel=tensor_parallel, **given)


def test_an_8b_model_loads_as_an_engine_logged_it() -> None:
    """Logged: 14.9888 GiB, of which 0.03 are the sines and cosines of 131,072 positions."""
    assert make_share(make_model()).on_accelerator_bytes / GIB == pytest.approx(14.9888, abs=0.001)


@pytest.mark.parametrize(
    ("name", "logged_gib"), [("Qwen/Qwen3.6-35B-A3B", 65.52), ("Qwen/Qwen2.5-VL-3B-Instruct", 7.16)]
)
def test_tables_of_positions_in_three_directions_are_four_times_as_long(name: str, logged_gib: float) -> None:
    """Without the longer tables both are 0.1 GiB and more below what engines logged."""
    model = known_models.find(name)
    assert model is not None
    assert make_share(model).loaded_bytes / 2**30 == pytest.approx(logged_gib, abs=0.06)


def test_ranks_split_the_weights() -> None:
    one, four = (make_share(make_model(), tensor_parallel=ranks).loaded_bytes for ranks in (1, 4))
    assert one / 4 <= four < one / 4 + 0.05 * GIB


def test_key_value_projections_are_copied_beyond_one_head_a_rank() -> None:
    model = make_model(max_position_embeddings=None)
    sixteen = make_share(model, tensor_parallel=16).loaded_bytes
    copied = 32 * 2 * 128 * 4096 * 0.5 * 2
    assert sixteen == pytest.approx(2 * model.parameters / 16 + copied, rel=1e-6)


def test_a_stage_holds_its_layers() -> None:
    model = make_model(max_position_embeddings=None)
    half = make_share(model, pipeline_parallel=2).loaded_bytes
    assert half == pytest.approx(make_share(model).loaded_bytes / 2, rel=0.001)


def test_experts_in_mxfp4_are_padded_as_kernels_want_them() -> None:
    """Logged: 65.97 GiB for gpt-oss-120b, 5.1 more than its files."""
    assert make_share(make_window_model()).loaded_bytes / GIB == pytest.approx(65.9651, rel=0.005)


def test_what_is_offloaded_never_is_the_embedding() -> None:
    """Logged: 0.80 GiB of DeepSeek-V2-Lite with 30 GiB on the host."""
    share = make_share(make_latent_model(), offload_bytes=30 * GIB)
    assert share.on_accelerator_bytes == share.embedding_bytes
    assert share.visiting_layer_bytes > GIB


def test_nothing_visits_where_nothing_is_offloaded() -> None:
    assert make_share(make_latent_model()).visiting_layer_bytes == 0
