"""What part of a model a tensor belongs to, by its name in the files."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

Part = Literal["routed_experts", "embedding", "head", "tower", "draft", "replicated", "rest", "unused"]

_UNUSED = re.compile(r"^(talker|token2wav|code2wav)\.")  # speech output of omni models, which text engines don't load
_TOWER = re.compile(
    r"(^|\.)(visual|vision_tower|vision_model|vision_encoder|vision_backbone|vision|vit|audio_tower|audio_encoder|"
    r"speech_encoder|multi_modal_projector|mm_projector|vision_language_adapter|patch_merger|pre_mm_projector_norm|"
    r"embed_vision|embed_audio|connector|image_newline|img_processor|img_projection|mlp1|aligner|projector|resampler)(\.|$)"
)
_DRAFT = re.compile(r"(^|\.)(mtp|mtp_layers|mtp_block|nextn)(\.|$)")
_EXPERTS = re.compile(r"(^|\.)(experts|block_sparse_moe\.(input_linear|output_linear)|local_experts)(\.|$)")
_SHARED = re.compile(r"shared_expert")
_HEAD = re.compile(r"(^|\.)(lm_head|embed_out|output_layer|shared_head\.head)\.|^(model\.)?output\.weight$")
_EMBEDDING = re.compile(
    r"(^|\.)(embed_tokens|embed_tokens_per_layer|wte|wpe|word_embeddings|tok_embeddings|embed_in|embed_positions|embeddings|"
    r"position_embedding|embedding)(\.|$)"
)
_REPLICATED = re.compile(
    r"(norm|layernorm|ln_[0-9f]+|ln_attn|ln_mlp)[^.]*\.(weight|bias)$|(^|\.)(gate|router|gate\.wg|shared_expert_gate)\."
    r"(weight|bias|e_score_correction_bias)$|(kv_a_proj_with_mqa|q_a_proj|fused_qkv_a_proj)\.|\.indexer\."
)
_LAYER = re.compile(r"(^|\.)(layers|h|blocks|block)\.(\d{1,6})\.")


_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")  # of a layer or an expert


def part(name: str) -> Part:
    """The part of one tensor; what is not recognized belongs to the rest."""
    return _part(_NUMBER.sub("0", name))


@lru_cache(maxsize=4096)
def _part(name: str) -> Part:
    if _UNUSED.match(name):
        return "unused"
    if _DRAFT.search(name):
        return "draft"
    if _TOWER.search(name):
        return "tower"
    if _EXPERTS.search(name) and not _SHARED.search(name):
        return "routed_experts"
    if _HEAD.search(name):
        return "head"
    if _EMBEDDING.search(name):
        return "embedding"
    return "replicated" if _REPLICATED.search(name) else "rest"


def layer(name: str) -> int | None:
    """The layer of the text model that a tensor belongs to."""
    found = _LAYER.search(name)
    return int(found.group(3)) if found else None
