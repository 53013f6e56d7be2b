"""The shorthand in which the tables of accelerators are written.

Units of a row: GiB of nominal memory, GB/s, dense TFLOPS (10**12 a second), W, US dollars an hour.
"""

from __future__ import annotations

from controlplane.domain.specs.accelerator import AcceleratorFacts

GIB = 1 << 30

# Usable share of nominal memory where no report of a driver is known.
# 0.985: median of 12 cards without inline ECC (0.975-0.992); 0.922: median of 4 cards with it (0.910-0.925).
USABLE_SHARE = 0.985
USABLE_SHARE_INLINE_ECC = 0.922


def usable_bytes(card: AcceleratorFacts) -> int:
    """Bytes that a program sees as the card's total: what the driver reports, else nominal times a usual share."""
    if card.usable_bytes is not None:
        return card.usable_bytes
    return int(card.memory_bytes * (USABLE_SHARE_INLINE_ECC if card.ecc_inline else USABLE_SHARE))


def row(
    name: str,
    vendor: str,
    architecture: str,
    gib: float,
    gb_s: float,
    *,
    aliases: tuple[str, ...] = (),
    usable_gib: float | None = None,
    bf16: float | None = None,
    fp16: float | None = None,
    fp8: float | None = None,
    int8: float | None = None,
    fp4: float | None = None,
    link: float | None = None,
    group: int | None = None,
    pcie: float | None = None,
    cc: str | None = None,
    tdp: float | None = None,
    rent: float | None = None,
    ecc_inline: bool = False,
    unified: bool = False,
) -> AcceleratorFacts:
    """One card. `fp16` is that of `bf16` where only one is given."""

    def tera(value: float | None) -> float | None:
        return None if value is None else value * 1e12

    return AcceleratorFacts(
        name=name,
        aliases=aliases,
        vendor=vendor,
        architecture=architecture,
        memory_bytes=int(gib * GIB),
        usable_bytes=None if usable_gib is None else int(usable_gib * GIB),
        bandwidth_bytes_per_s=gb_s * 1e9,
        bf16_flops=tera(bf16),
        fp16_flops=tera(fp16 if fp16 is not None else bf16),
        fp8_flops=tera(fp8),
        int8_ops=tera(int8),
        fp4_flops=tera(fp4),
        link_bytes_per_s=None if link is None else link * 1e9,
        pcie_bytes_per_s=None if pcie is None else pcie * 1e9,
        compute_capability=cc,
        tdp_w=tdp,
        cost_per_hour=rent,
        link_group=group,
        ecc_inline=ecc_inline,
        unified_memory=unified,
    )
