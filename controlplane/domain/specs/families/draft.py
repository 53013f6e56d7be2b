"""Draft layers that a model brings for speculation (multi-token prediction): counted apart from the model."""

from __future__ import annotations

from controlplane.domain.specs.families.block import Block
from controlplane.domain.specs.families.shape import Shape
from controlplane.domain.specs.fields import LARGEST_LAYERS, Fields
from controlplane.domain.specs.model import Layers

_FIELDS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers", "mtp_num_layers")
_IN_FILES_WITHOUT_A_FIELD = {"qwen3_next": 1}  # its files hold one draft layer that config.json doesn't mention


def read(fields: Fields, shape: Shape, blocks: tuple[Block, ...]) -> tuple[tuple[Layers, ...], int]:
    """What the draft layers keep for a request, and their parameters: a block like the model's last one with a cache
    of keys, a projection of two hidden vectors to one, and three norms."""
    count = fields.number(*_FIELDS, least=0, most=LARGEST_LAYERS)
    if count is None:
        count = _IN_FILES_WITHOUT_A_FIELD.get(shape.model_type, 0)
    with_keys = [block for block in reversed(blocks) if _keeps_keys(block)]
    own_indexer = [block for block in with_keys if block.mixer.caches[0].indexer_elements]
    like = next(iter(own_indexer or with_keys), None)  # a draft layer shares no other layer's choice of tokens
    if not count or like is None:
        return (), 0
    cache = like.mixer.caches[0]
    layers = Layers(
        cache.kind, count, cache.kv_heads, cache.head_dim, cache.value_head_dim, cache.window_tokens,
        cache.latent_elements, cache.indexer_elements,
    )  # fmt: skip
    return (layers,), count * (like.parameters + 2 * shape.hidden * shape.hidden + 3 * shape.norm)


def _keeps_keys(block: Block) -> bool:
    return any(cache.kv_heads or cache.latent_elements for cache in block.mixer.caches)
