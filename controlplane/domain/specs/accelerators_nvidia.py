"""NVIDIA cards of data centres: dense figures of the vendor's sheets, no sparsity.

`usable_gib` is what CUDA reports as total memory, from start-up logs of vLLM. Rents are typical ones of 2025-2026 on
public clouds, for comparisons only. Where several cards share a name, the first listed is meant by the bare name.
"""

from __future__ import annotations

from controlplane.domain.specs.accelerator_rows import row

_V = "NVIDIA"

CARDS = (
    row("P100-16GB", _V, "Pascal", 16, 732, fp16=18.7, pcie=16, cc="6.0", tdp=250, rent=0.2, aliases=("P100",)),
    row("P40", _V, "Pascal", 24, 347, fp16=0.18, int8=47, pcie=16, cc="6.1", tdp=250, rent=0.15, ecc_inline=True),
    row(
        "V100-16GB-SXM2", _V, "Volta", 16, 900, fp16=125, link=150, group=8, pcie=16, cc="7.0", tdp=300, rent=0.4,
        aliases=("V100", "V100-SXM"), usable_gib=15.77,
    ),
    row(
        "V100-32GB", _V, "Volta", 32, 900, fp16=125, link=150, group=8, pcie=16, cc="7.0", tdp=300, rent=0.55,
        aliases=("V100-SXM-32GB",), usable_gib=31.73,
    ),
    row("V100-PCIe-16GB", _V, "Volta", 16, 900, fp16=112, pcie=16, cc="7.0", tdp=250, rent=0.4, usable_gib=15.77),
    row("V100-PCIe-32GB", _V, "Volta", 32, 900, fp16=112, pcie=16, cc="7.0", tdp=250, rent=0.5, usable_gib=31.73),
    row("V100S-32GB", _V, "Volta", 32, 1134, fp16=130, pcie=16, cc="7.0", tdp=250, rent=0.6, aliases=("V100S",)),
    row(
        "T4", _V, "Turing", 16, 320, fp16=65.1, int8=130, pcie=16, cc="7.5", tdp=70, rent=0.3,
        usable_gib=14.56, ecc_inline=True,
    ),
    row("A2", _V, "Ampere", 16, 200, bf16=18, int8=36, pcie=16, cc="8.6", tdp=60, rent=0.2, ecc_inline=True),
    row(
        "A10", _V, "Ampere", 24, 600, bf16=125, int8=250, pcie=32, cc="8.6", tdp=150, rent=0.6,
        usable_gib=22.07, ecc_inline=True,
    ),
    row(
        "A10G", _V, "Ampere", 24, 600, bf16=70, int8=140, pcie=32, cc="8.6", tdp=300, rent=0.9,
        usable_gib=22.07, ecc_inline=True,
    ),
    row("A16", _V, "Ampere", 16, 200, bf16=17.4, int8=34.7, pcie=32, cc="8.6", tdp=62.5, rent=0.15, ecc_inline=True),
    row("A30", _V, "Ampere", 24, 933, bf16=165, int8=330, link=100, group=2, pcie=32, cc="8.0", tdp=165, rent=0.6),
    row(
        "A40", _V, "Ampere", 48, 696, bf16=149.7, int8=299.3, link=56.25, group=2, pcie=32, cc="8.6", tdp=300,
        rent=0.5, usable_gib=44.4, ecc_inline=True,
    ),
    row(
        "A100-SXM-40GB", _V, "Ampere", 40, 1555, bf16=312, int8=624, link=300, group=8, pcie=32, cc="8.0", tdp=400,
        rent=1.3, usable_gib=39.5, aliases=("A100-40GB",),
    ),
    row(
        "A100-PCIe-40GB", _V, "Ampere", 40, 1555, bf16=312, int8=624, link=300, group=2, pcie=32, cc="8.0", tdp=250,
        rent=1.2, usable_gib=39.5,
    ),
    row(
        "A100-SXM-80GB", _V, "Ampere", 80, 2039, bf16=312, int8=624, link=300, group=8, pcie=32, cc="8.0", tdp=400,
        rent=1.8, usable_gib=79.25, aliases=("A100",),
    ),
    row(
        "A100-PCIe-80GB", _V, "Ampere", 80, 1935, bf16=312, int8=624, link=300, group=2, pcie=32, cc="8.0", tdp=300,
        rent=1.6, usable_gib=79.25,
    ),
    row(
        "A800-SXM-80GB", _V, "Ampere", 80, 2039, bf16=312, int8=624, link=200, group=8, pcie=32, cc="8.0", tdp=400,
        rent=1.8, usable_gib=79.25, aliases=("A800",),
    ),
    row(
        "A800-PCIe-40GB", _V, "Ampere", 40, 1555, bf16=311.9, int8=623.7, link=200, group=2, pcie=32, cc="8.0",
        tdp=250, rent=1.2, usable_gib=39.5,
    ),
    row("L2", _V, "Ada", 24, 300, bf16=96.5, fp8=193, int8=193, pcie=32, cc="8.9", rent=0.4, ecc_inline=True),
    row(
        "L4", _V, "Ada", 24, 300, bf16=121, fp8=242, int8=242, pcie=32, cc="8.9", tdp=72, rent=0.6,
        usable_gib=22.06, ecc_inline=True,
    ),
    row(
        "L20", _V, "Ada", 48, 864, bf16=119.5, fp8=239, int8=239, pcie=32, cc="8.9", tdp=275, rent=0.7,
        usable_gib=44.4, ecc_inline=True,
    ),
    row(
        "L40", _V, "Ada", 48, 864, bf16=181, fp8=362, int8=362, pcie=32, cc="8.9", tdp=300, rent=0.9,
        usable_gib=44.4, ecc_inline=True,
    ),
    row(
        "L40S", _V, "Ada", 48, 864, bf16=362, fp8=733, int8=733, pcie=32, cc="8.9", tdp=350, rent=1.0,
        usable_gib=44.4, ecc_inline=True,
    ),
    row(
        "H100-SXM", _V, "Hopper", 80, 3350, bf16=989, fp8=1978, int8=1978, link=450, group=8, pcie=64, cc="9.0",
        tdp=700, rent=2.7, usable_gib=79.19, aliases=("H100",),
    ),
    row(
        "H100-PCIe", _V, "Hopper", 80, 2000, bf16=756.5, fp8=1513, int8=1513, link=300, group=2, pcie=64, cc="9.0",
        tdp=350, rent=2.2, usable_gib=79.19,
    ),
    row(
        "H100-NVL", _V, "Hopper", 94, 3900, bf16=835, fp8=1671, int8=1671, link=300, group=2, pcie=64, cc="9.0",
        tdp=400, rent=2.6, usable_gib=93.1,
    ),
    row(
        "H800-SXM", _V, "Hopper", 80, 3350, bf16=989, fp8=1978, int8=1978, link=200, group=8, pcie=64, cc="9.0",
        tdp=700, rent=2.5, usable_gib=79.19, aliases=("H800",),
    ),
    row(
        "H20", _V, "Hopper", 96, 4000, bf16=148, fp8=296, int8=296, link=450, group=8, pcie=64, cc="9.0", tdp=400,
        rent=1.4, usable_gib=95.0, aliases=("H20-SXM",),
    ),
    row(
        "H20-141GB", _V, "Hopper", 141, 4800, bf16=148, fp8=296, int8=296, link=450, group=8, pcie=64, cc="9.0",
        tdp=500, rent=1.7, usable_gib=139.81,
    ),
    row(
        "H200-SXM", _V, "Hopper", 141, 4800, bf16=989, fp8=1978, int8=1978, link=450, group=8, pcie=64, cc="9.0",
        tdp=700, rent=3.5, usable_gib=139.81, aliases=("H200",),
    ),
    row(
        "H200-NVL", _V, "Hopper", 141, 4800, bf16=835, fp8=1671, int8=1671, link=450, group=4, pcie=64, cc="9.0",
        tdp=600, rent=3.0, usable_gib=139.81,
    ),
    row(
        "GH200-96GB", _V, "Hopper", 96, 4000, bf16=989, fp8=1978, int8=1978, link=450, group=2, pcie=64, cc="9.0",
        tdp=700, rent=2.0, usable_gib=94.5, aliases=("GH200", "GH200-480GB"),
    ),
    row(
        "GH200-141GB", _V, "Hopper", 141, 4800, bf16=989, fp8=1978, int8=1978, link=450, group=2, pcie=64, cc="9.0",
        tdp=700, rent=2.6, usable_gib=139.8, aliases=("GH200-144GB", "GH200-144G"),
    ),
    row(
        "B200-SXM", _V, "Blackwell", 180, 7700, bf16=2250, fp8=4500, int8=4500, fp4=9000, link=900, group=8, pcie=64,
        cc="10.0", tdp=1000, rent=5.5, usable_gib=178.35, aliases=("B200", "B200-192GB"),
    ),
    row(
        "B300-SXM", _V, "Blackwell Ultra", 288, 7750, bf16=2250, fp8=4500, int8=153.5, fp4=14000, link=900, group=8,
        pcie=128, cc="10.3", tdp=1100, rent=6.5, usable_gib=268.6, aliases=("B300", "B300-262GB"),
    ),
    row(
        "GB200", _V, "Blackwell", 192, 8000, bf16=2500, fp8=5000, int8=5000, fp4=10000, link=900, group=72, pcie=64,
        cc="10.0", tdp=1200, rent=6.5, usable_gib=184.31, aliases=("GB200-186GB", "GB200-184GB", "GB200-NVL72"),
    ),
    row(
        "GB300", _V, "Blackwell Ultra", 288, 8000, bf16=2500, fp8=5000, int8=165, fp4=15000, link=900, group=72,
        pcie=128, cc="10.3", tdp=1400, rent=7.5, usable_gib=277.5, aliases=("GB300-NVL72",),
    ),
)  # fmt: skip
