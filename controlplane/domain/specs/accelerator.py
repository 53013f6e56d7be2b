"""Facts of one kind of accelerator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AcceleratorFacts:
    """Dense figures of a card as its vendor states them (no sparsity); None where unknown or not supported.

    `memory_bytes` is nominal (a marketing GB is 2**30 bytes on most cards); `usable_bytes` is what the driver reports.
    """

    name: str
    aliases: tuple[str, ...]
    vendor: str
    architecture: str
    memory_bytes: int
    usable_bytes: int | None
    bandwidth_bytes_per_s: float
    bf16_flops: float | None
    fp16_flops: float | None
    fp8_flops: float | None
    int8_ops: float | None
    fp4_flops: float | None
    link_bytes_per_s: float | None  # scale-up fabric, one direction; None = PCIe only
    pcie_bytes_per_s: float | None  # one direction
    compute_capability: str | None = None
    tdp_w: float | None = None
    cost_per_hour: float | None = None  # typical rent in US dollars, for comparisons; a deployment's own price wins
    link_group: int | None = None  # cards one fabric joins: 2 on a bridge, 8 on a board, 72 in a rack; None = no link
    ecc_inline: bool = False  # error correction takes its bits out of the memory itself (GDDR cards of data centres)
    unified_memory: bool = False  # the card shares its memory with the host
