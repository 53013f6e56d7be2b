"""The shorthand in which the tables of accelerators are written.

Units of a row: GiB of nominal memory, GB/s, dense TFLOPS (10**12 a second), W, US dollars an hour.
"""

from __future__ import annotations

from typing import TypedDict, Unpack

from controlplane.domain.specs.accelerator import AcceleratorFacts

GIB = 1 << 30
_GIGA = 1e9
_TERA = 1e12

# Usable share of nominal memory where no report of a driver is known.
# 0.985: median of 12 cards without inline ECC (0.975-0.992); 0.922: median of 4 cards with it (0.910-0.925).
USABLE_SHARE = 0.985
USABLE_SHARE_INLINE_ECC = 0.922


def usable_bytes(card: AcceleratorFacts) -> int:
    """Bytes that a program sees as the card's total: what the driver reports, else nominal times a usual share."""
    if card.usable_bytes is not None:
        return card.usable_bytes
    return int(card.memory_bytes * (USABLE_SHARE_INLINE_ECC if card.ecc_inline else USABLE_SHARE))


class Figures(TypedDict, total=False):
    """What a row may say besides memory and bandwidth: `group` cards joined by one link, `cc` = compute capability."""

    aliases: tuple[str, ...]
    usable_gib: float | None
    bf16: float | None
    fp16: float | None
    fp8: float | None
    int8: float | None
    fp4: float | None
    link: float | None
    group: int | None
    pcie: float | None
    cc: str | None
    tdp: float | None
    rent: float | None
    ecc_inline: bool
    unified: bool


def row(
    name: str, vendor: str, architecture: str, gib: float, gb_s: float, **figures: Unpack[Figures]
) -> AcceleratorFacts:
    """One card. `fp16` is that of `bf16` where only one is given; what is left out is not known."""
    usable_gib, bf16 = figures.get("usable_gib"), figures.get("bf16")
    fp16 = figures.get("fp16")
    return AcceleratorFacts(
        name=name,
        aliases=figures.get("aliases", ()),
        vendor=vendor,
        architecture=architecture,
        memory_bytes=int(gib * GIB),
        usable_bytes=None if usable_gib is None else int(usable_gib * GIB),
        bandwidth_bytes_per_s=gb_s * _GIGA,
        bf16_flops=_times(bf16, _TERA),
        fp16_flops=_times(bf16 if fp16 is None else fp16, _TERA),
        fp8_flops=_times(figures.get("fp8"), _TERA),
        int8_ops=_times(figures.get("int8"), _TERA),
        fp4_flops=_times(figures.get("fp4"), _TERA),
        link_bytes_per_s=_times(figures.get("link"), _GIGA),
        pcie_bytes_per_s=_times(figures.get("pcie"), _GIGA),
        compute_capability=figures.get("cc"),
        tdp_w=figures.get("tdp"),
        cost_per_hour=figures.get("rent"),
        link_group=figures.get("group"),
        ecc_inline=figures.get("ecc_inline", False),
        unified_memory=figures.get("unified", False),
    )


def _times(value: float | None, unit: float) -> float | None:
    return None if value is None else value * unit
