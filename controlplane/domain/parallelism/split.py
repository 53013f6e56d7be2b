"""One way to split a model: degrees of tensor, pipeline, data and expert parallelism, and all that there might be."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.parallelism.hardware import Hardware
from controlplane.domain.specs.model import ModelFacts

_EVERY_TENSOR = 8  # every degree up to here is looked at, beyond only powers of two
_MOST_TENSOR = 128
_MOST_STAGES = 32


@dataclass(frozen=True, slots=True)
class Split:
    """One copy of the model.

    `attention_copies` above 1: so many groups of `tensor` ranks each take their own requests through attention and
    share one set of experts (data-parallel attention). `experts`: whole experts are placed on ranks, else each expert
    is cut over the tensor-parallel ranks.
    """

    tensor: int = 1
    pipeline: int = 1
    attention_copies: int = 1
    experts: bool = False

    @property
    def ranks(self) -> int:
        """Cards of one stage, which have to talk within a step."""
        return self.tensor * self.attention_copies

    @property
    def cards(self) -> int:
        """Cards of one copy."""
        return self.ranks * self.pipeline

    @property
    def label(self) -> str:
        """As practitioners write it: TP 4 x PP 2, DP-attention 8 x EP 8."""
        parts = [f"TP {self.tensor}"]
        if self.attention_copies > 1:
            parts = [f"DP attention {self.attention_copies}"] + (parts if self.tensor > 1 else [])
        if self.pipeline > 1:
            parts.append(f"PP {self.pipeline}")
        if self.experts:
            parts.append(f"EP {self.ranks}")
        return " x ".join(parts)


def every(model: ModelFacts, hardware: Hardware) -> tuple[Split, ...]:
    """All splits worth a look, smallest first; those that can't be are among them and get their reason later."""
    total = hardware.cards
    found = []
    for tensor in _tensor_degrees(total):
        for stages in range(1, min(total // tensor, _MOST_STAGES) + 1):
            found.append(Split(tensor, stages))
        if model.experts is not None:
            found.extend(_with_experts(tensor, total))
    return tuple(sorted(found, key=lambda split: (split.pipeline, split.cards, split.experts, split.attention_copies)))


def _with_experts(tensor: int, total: int) -> list[Split]:
    """Whole experts on ranks: of one tensor-parallel group, or of several with attention of their own."""
    found = [Split(tensor, 1, 1, True)] if tensor > 1 else []
    copies = 2
    while tensor * copies <= min(total, _MOST_TENSOR):
        found.append(Split(tensor, 1, copies, True))
        copies *= 2
    return found


def _tensor_degrees(total: int) -> list[int]:
    powers = [2**n for n in range(4, 8)]
    return [degree for degree in (*range(1, _EVERY_TENSOR + 1), *powers) if degree <= min(total, _MOST_TENSOR)]
