"""Mixtures from which experts were taken (REAP): those that are left, held to the size that their names say.

Layers, attention and caches are those of the model they were made from.
"""

from __future__ import annotations

from controlplane.domain.specs.known.deepseek import MODELS as DEEPSEEK
from controlplane.domain.specs.known.hybrid import MODELS as HYBRID
from controlplane.domain.specs.known.qwen import MODELS as QWEN
from controlplane.domain.specs.known.row import Config, changed

_SHARES: tuple[tuple[str, dict[str, Config], str, str, int], ...] = (
    # name, where its base stands, base, field that counts experts, experts that are left
    ("GLM-4.5-Air-REAP-82B-A12B", DEEPSEEK, "GLM-4.5-Air", "n_routed_experts", 96),
    ("GLM-4.6-REAP-218B-A32B", DEEPSEEK, "GLM-4.6", "n_routed_experts", 96),
    ("GLM-4.6-REAP-252B-A32B", DEEPSEEK, "GLM-4.6", "n_routed_experts", 112),
    ("GLM-4.6-REAP-268B-A32B", DEEPSEEK, "GLM-4.6", "n_routed_experts", 120),
    ("GLM-4.7-REAP-218B-A32B", DEEPSEEK, "GLM-4.7", "n_routed_experts", 96),
    ("GLM-4.7-REAP-268B-A32B", DEEPSEEK, "GLM-4.7", "n_routed_experts", 120),
    ("GLM-4.7-Flash-REAP-23B-A3B", DEEPSEEK, "GLM-4.7-Flash", "n_routed_experts", 48),
    ("DeepSeek-V3.2-REAP-345B-A37B", DEEPSEEK, "DeepSeek-V3.2", "n_routed_experts", 128),
    ("DeepSeek-V3.2-REAP-508B-A37B", DEEPSEEK, "DeepSeek-V3.2", "n_routed_experts", 192),
    ("Kimi-Linear-REAP-35B-A3B", DEEPSEEK, "Kimi-Linear-48B-A3B", "n_routed_experts", 180),
    ("MiniMax-M2-REAP-172B-A10B", HYBRID, "MiniMax-M2", "num_local_experts", 192),
    ("MiniMax-M2-REAP-162B-A10B", HYBRID, "MiniMax-M2", "num_local_experts", 180),
    ("MiniMax-M2-REAP-139B-A10B", HYBRID, "MiniMax-M2", "num_local_experts", 154),
    ("MiniMax-M2.1-REAP-139B-A10B", HYBRID, "MiniMax-M2.1", "num_local_experts", 154),
    ("MiniMax-M2.5-REAP-172B-A10B", HYBRID, "MiniMax-M2.5", "num_local_experts", 192),
    ("MiniMax-M2.5-REAP-139B-A10B", HYBRID, "MiniMax-M2.5", "num_local_experts", 154),
    ("Qwen3-Coder-REAP-25B-A3B", QWEN, "Qwen3-Coder-30B-A3B", "num_experts", 103),
    ("Qwen3-Coder-REAP-246B-A35B", QWEN, "Qwen3-Coder-480B-A35B", "num_experts", 80),
    ("Qwen3-Coder-REAP-363B-A35B", QWEN, "Qwen3-Coder-480B-A35B", "num_experts", 120),
)

MODELS: dict[str, Config] = {
    # each base's own FP8 or INT4 files; what was made from them is in 16 bits unless its name says otherwise
    name: changed(configs[base], **{field: left}, quantization_config=None)
    for name, configs, base, field, left in _SHARES
}
