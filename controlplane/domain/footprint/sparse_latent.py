"""In which layout vLLM keeps the cache of sparse latent attention (DeepSeek-V3.2, GLM-5): by version, card and wish.

A token and layer take 1152 bytes in BF16 (576 elements), 576 in plain FP8, and 656 in `fp8_ds_mla`: 512 FP8, four
32-bit scales, and the 64 rotary elements in BF16. Beside it, each layer that has an indexer of its own keeps 132 bytes
of that (128 FP8 and one 32-bit scale), whatever the cache's own type. Layers that share an earlier layer's choice
(GLM-5.2: 57 of 78) keep none.

Sources
    The engine's own code of 0.32 (the layout `fp8_ds_mla`, its row of 656 bytes, which kernels take which type, the
    defaults of GLM-5 and of compute capability 12) and two of its changes: vllm#25988 (September 2025, 0.11), by which
    "auto" meant `fp8_ds_mla` for V3.2, and vllm#37252 (March 2026, 0.18), by which FP8 on compute capability 10 went to
    kernels that keep it plain. Code of 0.13 leaves "auto" alone already; 0.12 was taken for the end of the first, which
    no source says. Checked on one figure of a real start: GLM-5.2 with its draft layer in `fp8_ds_mla` keeps 54,728
    bytes a token (79 x 656 + 22 x 132).
"""

from __future__ import annotations

from controlplane.domain.footprint.engine_rules import EngineRules
from controlplane.domain.specs import kv_precision
from controlplane.domain.specs.kv_precision import KvPrecision

_PACKED = "fp8_ds_mla"
_GLM_DEFAULT_FROM = (0, 32, 0)  # seen in 0.32; older code was not at hand


def of_engine(kv: KvPrecision, rules: EngineRules, capability: str | None, family: str) -> tuple[KvPrecision, str]:
    """The cache's precision as this engine keeps it on a card of this compute capability ("9.0"; None = not known), and
    the sentence that tells what was taken where nobody chose it; "" where it is as asked.

    `kv` is that of `precision.parse`: of other attention than sparse latent one it comes back as it is.
    """
    major = (capability or "").partition(".")[0]
    if kv.asked == "fp8" and major == "10" and rules.version >= (0, 18, 0):
        return kv_precision.parse("fp8", model_dtype="bf16"), ""
    if kv.asked != "nothing":
        return kv, ""
    name = _default(rules, major, family)
    if name is None:
        return kv, ""
    note = f"kv_cache_dtype is not given; {name} is the default of {rules.label} for sparse latent attention here."
    return kv_precision.parse(name, model_dtype="bf16"), note


def _default(rules: EngineRules, major: str, family: str) -> str | None:
    if major == "12":
        return _PACKED  # its kernels know no other layout
    if family.startswith("glm"):
        return "fp8" if major == "10" and rules.version >= _GLM_DEFAULT_FROM else None
    return _PACKED if (0, 11, 0) <= rules.version < (0, 12, 0) else None
