"""Small vision models, speech, encoders for embeddings, and models whose tower is known by its published size alone."""

# ruff: noqa: PLR0917 - a line of the table gives widths in the order in which papers do
from __future__ import annotations

from controlplane.domain.specs.known.llama import MISTRAL_7B_1
from controlplane.domain.specs.known.other import MODELS as OTHER
from controlplane.domain.specs.known.qwen import MODELS as QWEN
from controlplane.domain.specs.known.row import Config, changed, row, seeing

_TIED = {"tie_word_embeddings": True}
_INTERN = {"model_type": "intern_vit_6b", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
           "patch_size": 14, "image_size": 448}  # fmt: skip
_TOWER_25 = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "patch_size": 14}
_TOWER_3 = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "patch_size": 16,
            "num_position_embeddings": 2304, "deepstack_visual_indexes": [8, 16, 24]}  # fmt: skip
_OMNI_AUDIO = {"model_type": "qwen3_omni_moe_audio_encoder", "d_model": 1280, "encoder_layers": 32,
               "encoder_ffn_dim": 5120, "num_mel_bins": 128}  # fmt: skip
_CLIP = {"model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
         "patch_size": 14, "image_size": 336}  # fmt: skip


def _intern(name: str, vocab: int | None = None) -> Config:
    text = changed(QWEN[name], tie_word_embeddings=False)
    text = text if vocab is None else changed(text, vocab_size=vocab)
    return {"model_type": "internvl_chat", "llm_config": text, "vision_config": _INTERN, "downsample_ratio": 0.5}


def _gemma_3n(layers: int, inner: int, shared: int) -> Config:
    kinds = ["full_attention" if layer % 5 == 4 else "sliding_attention" for layer in range(layers)]
    return row("gemma3n_text", 2048, inner, layers, 8, 2, 262400, head_dim=256, layer_types=kinds, sliding_window=512,
               num_kv_shared_layers=shared, hidden_size_per_layer_input=256, vocab_size_per_layer_input=262144,
               laurel_rank=64, altup_num_inputs=4, max_position_embeddings=32768, **_TIED)  # fmt: skip


def _encoder(model_type: str, hidden: int, layers: int, heads: int, vocab: int, positions: int) -> Config:
    return row(model_type, hidden, 4 * hidden, layers, heads, heads, vocab, max_position_embeddings=positions, **_TIED)


_DEEPSEEK_OCR = row(
    "deepseek", 1280, 6848, 12, 10, 10, 129280, n_routed_experts=64, num_experts_per_tok=6, n_shared_experts=2,
    moe_intermediate_size=896, first_k_dense_replace=1, max_position_embeddings=8192,
)  # fmt: skip

MODELS: dict[str, Config] = {
    "InternVL3-1B": _intern("Qwen2.5-0.5B", 151674),
    "InternVL3-2B": _intern("Qwen2.5-1.5B", 151674),
    "InternVL3_5-1B": _intern("Qwen3-0.6B"),
    "InternVL3_5-2B": _intern("Qwen3-1.7B"),
    "InternVL3_5-4B": _intern("Qwen3-4B"),
    "MiMo-VL-7B": seeing("qwen2_5_vl", changed(QWEN["MiMo-7B"], num_nextn_predict_layers=0), _TOWER_25),
    "Qwen3-Omni-30B-A3B": seeing(
        "qwen3_omni_moe_thinker",
        changed(QWEN["Qwen3-30B-A3B"], model_type="qwen3_omni_moe_text", vocab_size=152064,
        max_position_embeddings=65536),
        _TOWER_3,
        audio_config=_OMNI_AUDIO,
    ),
    "Qwen3-Reranker-0.6B": QWEN["Qwen3-Embedding-0.6B"],
    "Qwen3-Reranker-4B": QWEN["Qwen3-Embedding-4B"],
    "Qwen3-Reranker-8B": QWEN["Qwen3-Embedding-8B"],
    "e5-mistral-7b": MISTRAL_7B_1,
    "medgemma-4b": OTHER["gemma-3-4b"],
    "medgemma-27b": OTHER["gemma-3-27b"],
    "gemma-3n-E2B": _gemma_3n(30, 8192, 10),
    "gemma-3n-E4B": _gemma_3n(35, 16384, 15),
    "Phi-3.5-vision": seeing("phi3_v", OTHER["Phi-3.5-mini"], _CLIP),
    "Phi-4-multimodal": OTHER["Phi-4-mini"],
    "MiniCPM-V-2_6": changed(QWEN["Qwen2.5-7B"], vocab_size=151666),
    "DeepSeek-OCR": _DEEPSEEK_OCR,
    "bge-large-en-v1.5": _encoder("bert", 1024, 24, 16, 30522, 512),
    "bge-base-en-v1.5": _encoder("bert", 768, 12, 12, 30522, 512),
    "bge-small-en-v1.5": row("bert", 384, 1536, 12, 12, 12, 30522, max_position_embeddings=512, **_TIED),
    "all-MiniLM-L6-v2": row("bert", 384, 1536, 6, 12, 12, 30522, max_position_embeddings=512, **_TIED),
    "bert-base-uncased": _encoder("bert", 768, 12, 12, 30522, 512),
    "bge-m3": _encoder("xlm-roberta", 1024, 24, 16, 250002, 8194),
    "bge-reranker-v2-m3": _encoder("xlm-roberta", 1024, 24, 16, 250002, 8194),
    "multilingual-e5-large": _encoder("xlm-roberta", 1024, 24, 16, 250002, 514),
    "AFM-4.5B": row("arcee", 2560, 18432, 36, 20, 4, 128004, head_dim=128, max_position_embeddings=65536),
    "Solar-Open-100B": row(
        "solar_open", 4096, 10240, 48, 64, 8, 196608, head_dim=128, n_routed_experts=128, num_experts_per_tok=8,
        n_shared_experts=1, moe_intermediate_size=1280, max_position_embeddings=131072,
    ),
}  # fmt: skip

# Parameters as published, of models whose tower no config.json describes by widths:
# what the text model lacks of them is the tower.
TOTALS: dict[str, int] = {
    "gemma-3n-E2B": 5_439_438_272,
    "gemma-3n-E4B": 7_849_978_192,
    "Phi-3.5-vision": 4_146_621_440,
    "Phi-4-multimodal": 5_574_460_384,
    "MiniCPM-V-2_6": 8_099_175_152,
    "DeepSeek-OCR": 3_336_106_240,
}
