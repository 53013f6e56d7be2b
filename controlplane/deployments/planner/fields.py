"""What a planner's question may hold: the names that the domain's refusals use, and the ranges of numbers."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_TEXT = 200
MOST_FILE_BYTES = 2 * 1024 * 1024  # of a pasted config.json, an uploaded index or a trace
GPU_GIB = 4096.0


@dataclass(frozen=True, slots=True)
class Number:
    """A number from `least` (or above it) to `most`. `usual` is taken when it is not given; None = left open."""

    name: str
    least: float
    most: float
    whole: bool = False
    above: bool = False
    usual: float | None = None


NUMBERS: tuple[Number, ...] = (
    Number("gpu_memory_total_gib", 0.5, GPU_GIB),
    Number("cards_per_node", 1, 128, whole=True, usual=1),
    Number("nodes", 1, 100_000, whole=True, usual=1),
    Number("link_group", 1, 4096, whole=True),
    Number("price_per_hour", 0, 1e6),
    Number("tensor_parallel", 1, 1024, whole=True),
    Number("pipeline_parallel", 1, 1024, whole=True),
    Number("attention_copies", 1, 1024, whole=True),
    Number("max_model_len", 1, 100_000_000, whole=True),
    Number("max_num_seqs", 1, 100_000, whole=True),
    Number("max_num_batched_tokens", 1, 10_000_000, whole=True),
    Number("block_size", 1, 1024, whole=True),
    Number("gpu_memory_utilization", 0.05, 0.99),
    Number("kv_cache_memory_gib", 0.001, GPU_GIB),
    Number("foreign_gib", 0, GPU_GIB),
    Number("reserve_gib", 0, GPU_GIB),
    Number("cpu_offload_gib", 0, GPU_GIB),
    Number("speculative_tokens", 1, 64, whole=True),
    Number("max_loras", 0, 1024, whole=True),
    Number("max_lora_rank", 1, 512, whole=True),
    Number("input_tokens", 1, 2e7, usual=1000),
    Number("input_p50", 1, 2e7),
    Number("input_p95", 1, 2e7),
    Number("input_p99", 1, 2e7),
    Number("output_tokens", 1, 2e7, usual=300),
    Number("output_p50", 1, 2e7),
    Number("output_p95", 1, 2e7),
    Number("output_p99", 1, 2e7),
    Number("ttft_ms", 0, 1e9, above=True),
    Number("tpot_ms", 0, 1e9, above=True),
    Number("peak_requests_per_s", 0, 1e7, above=True),
    Number("mean_requests_per_s", 0, 1e7, above=True),
    Number("requests_per_s_a_card", 0, 1e6, above=True),
    Number("tokens_per_s_a_card", 0, 1e9, above=True),
    Number("safety_factor", 0, 1, above=True, usual=0.8),
    Number("utilization_target", 0, 1, above=True, usual=0.6),
    Number("hot_share", 0, 1, above=True, usual=0.7),
)
BY_NAME = {number.name: number for number in NUMBERS}
TEXTS = (
    "variant", "model", "gpu", "pool", "dtype", "quantization", "kv_cache_dtype", "vllm_version", "purpose",
    "speculative", "draft_model", "media",
)  # fmt: skip
FLAGS = ("enforce_eager", "survive_node_loss", "expert_parallel", "own_measurements")
DRAFTS = ("ngram", "mtp", "eagle3", "draft_model")  # ways to propose tokens, by vLLM's names
DRAFTS_WITH_FILES = ("eagle3", "draft_model")
USUAL_DRAFT_TOKENS = 3
MEDIA = ("taken", "refused")  # whether a model that takes pictures may be sent some
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM has
USUAL_LORA_RANK = 16
PERCENTILES = (50, 95, 99)  # of lengths that may be given
