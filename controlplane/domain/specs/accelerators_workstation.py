"""NVIDIA cards of desks, workstations and small boards: dense figures with 32-bit accumulation, no sparsity.

Desktop GeForce cards run tensor operations with 32-bit accumulation at half the advertised rate; engines use that one.
`usable_gib` is what CUDA reports, from start-up logs of vLLM where one is known.
"""

from __future__ import annotations

from controlplane.domain.specs.accelerator_rows import row

_V = "NVIDIA"

CARDS = (
    row("RTX-2060", _V, "Turing", 6, 336, fp16=25.8, int8=103, pcie=16, cc="7.5", tdp=160),
    row("RTX-2080", _V, "Turing", 8, 448, fp16=42.4, int8=170, pcie=16, cc="7.5", tdp=215),
    row(
        "RTX-2080Ti", _V, "Turing", 11, 616, fp16=53.8, int8=215, link=50, group=2, pcie=16, cc="7.5", tdp=250,
        rent=0.12,
    ),
    row("RTX-2080Ti-22GB", _V, "Turing", 22, 616, fp16=53.8, int8=215, pcie=16, cc="7.5", tdp=250, usable_gib=21.5),
    row("TITAN-RTX", _V, "Turing", 24, 672, fp16=65.2, int8=261, link=50, group=2, pcie=16, cc="7.5", tdp=280),
    row("Quadro-RTX-6000", _V, "Turing", 24, 672, fp16=130.5, int8=261, link=50, group=2, pcie=16, cc="7.5", tdp=295),
    row("Quadro-RTX-8000", _V, "Turing", 48, 672, fp16=130.5, int8=261, link=50, group=2, pcie=16, cc="7.5", tdp=295),
    row("RTX-3060", _V, "Ampere", 12, 360, bf16=25.5, int8=102, pcie=32, cc="8.6", tdp=170, rent=0.08),
    row("RTX-3070", _V, "Ampere", 8, 448, bf16=40.6, int8=163, pcie=32, cc="8.6", tdp=220),
    row("RTX-3080", _V, "Ampere", 10, 760, bf16=59.5, int8=238, pcie=32, cc="8.6", tdp=320),
    row("RTX-3080Ti", _V, "Ampere", 12, 912, bf16=68.2, int8=273, pcie=32, cc="8.6", tdp=350),
    row(
        "RTX-3090", _V, "Ampere", 24, 936, bf16=71, int8=284, link=56.25, group=2, pcie=32, cc="8.6", tdp=350,
        rent=0.25, usable_gib=23.58, aliases=("3090",),
    ),
    row(
        "RTX-3090Ti", _V, "Ampere", 24, 1008, bf16=80, int8=320, link=56.25, group=2, pcie=32, cc="8.6", tdp=450,
        rent=0.27, usable_gib=23.58,
    ),
    row("RTX-A2000-12GB", _V, "Ampere", 12, 288, bf16=32, int8=64, pcie=32, cc="8.6", tdp=70, aliases=("RTX-A2000",)),
    row("RTX-A4000", _V, "Ampere", 16, 448, bf16=76.7, int8=153, pcie=32, cc="8.6", tdp=140, rent=0.2),
    row(
        "RTX-A4500", _V, "Ampere", 20, 640, bf16=94.6, int8=189, link=56.25, group=2, pcie=32, cc="8.6", tdp=200,
    ),
    row(
        "RTX-A5500", _V, "Ampere", 24, 768, bf16=136.4, int8=273, link=56.25, group=2, pcie=32, cc="8.6", tdp=230,
    ),
    row(
        "RTX-A5000", _V, "Ampere", 24, 768, bf16=111, int8=222, link=56.25, group=2, pcie=32, cc="8.6", tdp=230,
        rent=0.3, usable_gib=23.56,
    ),
    row(
        "RTX-A6000", _V, "Ampere", 48, 768, bf16=154.8, int8=309.7, link=56.25, group=2, pcie=32, cc="8.6", tdp=300,
        rent=0.5, usable_gib=47.5, aliases=("A6000",),
    ),
    row("RTX-4060Ti-16GB", _V, "Ada", 16, 288, bf16=44, fp8=88.3, int8=176.5, pcie=16, cc="8.9", tdp=165),
    row("RTX-4060", _V, "Ada", 8, 272, bf16=30.3, fp8=60.5, int8=121, pcie=16, cc="8.9", tdp=115),
    row("RTX-4070", _V, "Ada", 12, 504, bf16=58.3, fp8=117, int8=233, pcie=32, cc="8.9", tdp=200),
    row("RTX-4070Ti", _V, "Ada", 12, 504, bf16=80.2, fp8=160, int8=321, pcie=32, cc="8.9", tdp=285),
    row("RTX-4070-Super", _V, "Ada", 12, 504, bf16=71, fp8=142, int8=284, pcie=32, cc="8.9", tdp=220),
    row("RTX-4070Ti-Super", _V, "Ada", 16, 672, bf16=88, fp8=176, int8=353, pcie=32, cc="8.9", tdp=285),
    row("RTX-4080-Super", _V, "Ada", 16, 736, bf16=104.5, fp8=209, int8=418, pcie=32, cc="8.9", tdp=320),
    row("RTX-4080", _V, "Ada", 16, 717, bf16=97.5, fp8=195, int8=390, pcie=32, cc="8.9", tdp=320, rent=0.3),
    row(
        "RTX-4090", _V, "Ada", 24, 1008, bf16=165.2, fp8=330.3, int8=660.6, pcie=32, cc="8.9", tdp=450, rent=0.45,
        usable_gib=23.65, aliases=("RTX-4090-D", "4090"),
    ),
    row("RTX-4000-SFF-Ada", _V, "Ada", 20, 280, bf16=76.8, fp8=154, int8=154, pcie=32, cc="8.9", tdp=70, rent=0.25),
    row("RTX-4000-Ada", _V, "Ada", 20, 360, bf16=107, fp8=214, int8=214, pcie=32, cc="8.9", tdp=130, rent=0.3),
    row("RTX-4500-Ada", _V, "Ada", 24, 432, bf16=158, fp8=317, int8=317, pcie=32, cc="8.9", tdp=210, rent=0.4),
    row("RTX-5000-Ada", _V, "Ada", 32, 576, bf16=261, fp8=522, int8=522, pcie=32, cc="8.9", tdp=250, rent=0.6),
    row(
        "RTX-6000-Ada", _V, "Ada", 48, 960, bf16=364.2, fp8=728.5, int8=728.5, pcie=32, cc="8.9", tdp=300, rent=0.8,
        usable_gib=47.37,
    ),
    row(
        "RTX-5060Ti-16GB", _V, "Blackwell (consumer)", 16, 448, bf16=47.4, fp8=95, int8=190, fp4=380, pcie=32,
        cc="12.0", tdp=180, usable_gib=15.48, aliases=("RTX-5060Ti",),
    ),
    row(
        "RTX-5070", _V, "Blackwell (consumer)", 12, 672, bf16=61.7, fp8=123.5, int8=247, fp4=494, pcie=64, cc="12.0",
        tdp=250,
    ),
    row(
        "RTX-5070Ti", _V, "Blackwell (consumer)", 16, 896, bf16=87.9, fp8=176, int8=352, fp4=703, pcie=64, cc="12.0",
        tdp=300, usable_gib=15.48,
    ),
    row(
        "RTX-5080", _V, "Blackwell (consumer)", 16, 960, bf16=112.6, fp8=225, int8=450, fp4=900, pcie=64, cc="12.0",
        tdp=360, usable_gib=15.48,
    ),
    row(
        "RTX-5090", _V, "Blackwell (consumer)", 32, 1792, bf16=209.5, fp8=419, int8=838, fp4=1676, pcie=64, cc="12.0",
        tdp=575, rent=0.7, usable_gib=31.37, aliases=("RTX-5090-D", "5090"),
    ),
    row("RTX-5060Ti-8GB", _V, "Blackwell (consumer)", 8, 448, bf16=47.4, fp8=95, int8=190, fp4=380, pcie=32, cc="12.0",
        tdp=180),
    row("RTX-PRO-5000", _V, "Blackwell (pro)", 48, 1344, bf16=258, fp8=516, int8=516, fp4=1032, pcie=64, cc="12.0",
        tdp=300),
    row(
        "RTX-PRO-6000-Server", _V, "Blackwell (pro)", 96, 1597, bf16=467.8, fp8=935.6, int8=935.6, fp4=1871.2,
        pcie=64, cc="12.0", tdp=600, rent=1.5, usable_gib=94.97, aliases=("RTX-PRO-6000",),
    ),
    row(
        "RTX-PRO-6000-Workstation", _V, "Blackwell (pro)", 96, 1792, bf16=503.8, fp8=1007.6, int8=1007.6, fp4=2015,
        pcie=64, cc="12.0", tdp=600, rent=1.5, usable_gib=94.97,
        aliases=("RTX-PRO-6000-MAX-Q", "RTX-PRO-6000-MAX-Q-WORKSTATION"),
    ),
    row(
        "GB10-DGX-Spark", _V, "Blackwell (GB10)", 128, 273, bf16=125, fp8=250, int8=250, fp4=500, link=25, group=2,
        cc="12.1", tdp=140, usable_gib=119.7, unified=True, aliases=("GB10", "DGX-SPARK", "SPARK-GB10"),
    ),
    row(
        "Jetson-AGX-Orin-64GB", _V, "Ampere (Orin)", 64, 204.8, bf16=42.5, int8=85, pcie=32, cc="8.7", tdp=60,
        unified=True, usable_gib=61.4, aliases=("JETSON-AGX-ORIN", "AGX-ORIN", "ORIN"),
    ),
    row(
        "Jetson-Orin-Nano-8GB", _V, "Ampere (Orin)", 8, 102, bf16=16.7, int8=33.5, pcie=16, cc="8.7", tdp=25,
        unified=True, usable_gib=7.4, aliases=("JETSON-ORIN-NANO", "ORIN-NANO"),
    ),
    row(
        "Jetson-AGX-Thor", _V, "Blackwell (Thor)", 128, 273, bf16=258, fp8=517, int8=517, fp4=1035, pcie=64,
        cc="11.0", tdp=130, unified=True, usable_gib=122.8, aliases=("AGX-THOR", "THOR"),
    ),
)  # fmt: skip
