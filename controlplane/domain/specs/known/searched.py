"""Llama Nemotron Super and Ultra, pruned layer by layer by search: `block_configs` of their config.json, in short.

A letter and the width of the feed-forward over the hidden one for each layer: `a` has attention, `n` has none, `-` has
neither (such layers are as many as published, in about their places). Sums are held to the published totals.
"""

from __future__ import annotations

from controlplane.domain.specs.known.row import Config

_SUPER = (
    "a2.625 a5.25*5 n2.625*2 a5.25*3 n3.28125 a5.25*30 n1.3125 n2.625*2 n1.3125 n5.25 n1.3125 n2.625 n1.3125*3 a5.25 "
    "n1.3125 n1.0*2 n1.3125 n1.0*3 n1.3125*2 n0.5*2 n1.0*2 n0.5*2 n1.0 n0.5*2 a5.25*9"
)
_ULTRA = (
    "a0.4875 a0.975 a1.4625*6 a1.95 -*4 a1.95*3 a4.875*2 -*5 a4.875*3 -*5 a4.875*3 a2.4375 -*3 a1.95*3 n1.95 a4.875 "
    "n4.875 -*5 a4.875*4 -*5 a4.875*4 -*5 a4.875*4 -*5 a4.875*4 -*5 a4.875 a3.4125*3 -*2 a2.925 a2.4375*3 n2.4375*2 "
    "a2.4375 - n2.4375*7 a2.4375 -*5 a2.925 a4.875 n4.875 a4.875 -*8 n36.5625 -*9 n39.0 -*8 n31.40625 -*5 n27.5625 "
    "n1.95 a1.95 a2.4375 - a2.4375*2 a3.4125 a4.875*4 a2.4375"
)


def _block(letter: str, width: str, group: int) -> Config:
    attention = {"no_op": letter != "a", "n_heads_in_group": group if letter == "a" else None}
    return {"attention": attention, "ffn": {"no_op": not width, "ffn_mult": float(width) if width else None}}


def _blocks(written: str, group: int) -> list[Config]:
    found: list[Config] = []
    for run in written.split():
        layer, _, times = run.partition("*")
        found += [_block(layer[0], layer[1:], group)] * int(times or 1)
    return found


def _searched(written: str, hidden: int, heads: int, group: int) -> Config:
    blocks = _blocks(written, group)
    return {
        "model_type": "nemotron-nas",
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_hidden_layers": len(blocks),
        "block_configs": blocks,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
    }


_SUPER_49B = _searched(_SUPER, 8192, 64, 8)

MODELS: dict[str, Config] = {
    "Llama-3_3-Nemotron-Super-49B-v1": _SUPER_49B,
    "Llama-3_3-Nemotron-Super-49B-v1_5": _SUPER_49B,
    "Llama-3_1-Nemotron-Ultra-253B-v1": _searched(_ULTRA, 16384, 128, 16),
}
