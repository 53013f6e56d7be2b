"""What is asked of the performance model: on what a model runs, and what load it carries.

Guarantees
    Plain values. `Setup.cards` are all cards of the deployment; `data_parallel` whole copies share them, each of
    `tensor_parallel` x `pipeline_parallel` cards. With `attention_parallel` above 1 the ranks of one copy share the
    experts and each takes its own requests through attention (data-parallel attention).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from controlplane.domain.specs.accelerator import AcceleratorFacts

LoadMode = Literal["closed_loop", "open_loop", "burst", "max_load"]

# Means of ShareGPT prompts and answers over the 5 published set-ups that state them (215-217 and 198-200 tokens).
USUAL_INPUT_TOKENS = 215.0
USUAL_OUTPUT_TOKENS = 199.0


@dataclass(frozen=True, slots=True)
class Setup:
    """Cards, split, engine and number formats. `weight_format` and `kv_format` as number_formats names them."""

    accelerator: AcceleratorFacts
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    attention_parallel: int = 1
    expert_parallel: bool = False
    engine: str = "vllm"
    engine_version: str | None = None
    weight_format: str = "bf16"
    kv_format: str = "auto"
    kv_narrow: bool = False  # what "auto" stands for is not known, and 8 bits are likely
    speculative: bool = False
    max_num_seqs: int | None = None
    max_num_batched_tokens: int = 8192
    kv_capacity_tokens: int | None = None  # of one copy, as the ledger works it out; None = a rule of thumb
    eager: bool = False  # no CUDA graphs

    @property
    def cards(self) -> int:
        """Accelerators of all copies together."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel


@dataclass(frozen=True, slots=True)
class Workload:
    """Mean lengths of requests in tokens, and how they come.

    `context_tokens` is the mean context of a decoding request; None = the prompt and half of the answer.
    `requests` is how many a benchmark sends in all: the first come together. None = not known, as in published runs;
    infinity = steady traffic that never comes in waves.
    """

    input_tokens: float = USUAL_INPUT_TOKENS
    output_tokens: float = USUAL_OUTPUT_TOKENS
    context_tokens: float | None = None
    requests: float | None = None

    @property
    def mean_context_tokens(self) -> float:
        """Tokens before a decoding request's next one, on average."""
        return self.context_tokens or self.input_tokens + self.output_tokens / 2
