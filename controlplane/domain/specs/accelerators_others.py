"""Accelerators of AMD, Intel, Huawei, Google, AWS and others: dense figures as their vendors state them."""

from __future__ import annotations

from controlplane.domain.specs.accelerator_rows import row

CARDS = (
    row("MI100", "AMD", "CDNA", 32, 1229, bf16=92.3, fp16=184.6, int8=184.6, pcie=32, cc="gfx908", tdp=300),
    row(
        "MI210", "AMD", "CDNA2", 64, 1638, bf16=181, int8=181, link=150, group=4, pcie=32, cc="gfx90a", tdp=300,
        rent=0.8,
    ),
    row("MI250", "AMD", "CDNA2", 128, 3277, bf16=362, int8=362, link=300, group=4, pcie=32, cc="gfx90a", tdp=560),
    row("MI250X", "AMD", "CDNA2", 128, 3280, bf16=383, int8=383, link=400, group=4, pcie=32, cc="gfx90a", tdp=560),
    row(
        "MI300X", "AMD", "CDNA3", 192, 5300, bf16=1307.4, fp8=2614.9, int8=2614.9, link=448, group=8, pcie=64,
        cc="gfx942", tdp=750, rent=2.2, usable_gib=191.5,
    ),
    row(
        "MI308X", "AMD", "CDNA3", 192, 5300, bf16=345, fp8=690, int8=690, link=448, group=8, pcie=64, cc="gfx942",
        tdp=650,
    ),
    row(
        "MI325X", "AMD", "CDNA3", 256, 6000, bf16=1307.4, fp8=2614.9, int8=2614.9, link=448, group=8, pcie=64,
        cc="gfx942", tdp=1000, rent=2.6, usable_gib=255.5,
    ),
    row(
        "MI350X", "AMD", "CDNA4", 288, 8000, bf16=2300, fp8=4600, int8=4600, fp4=9200, link=537, group=8, pcie=64,
        cc="gfx950", tdp=1000, rent=3.4, usable_gib=287.5,
    ),
    row(
        "MI355X", "AMD", "CDNA4", 288, 8000, bf16=2500, fp8=5000, int8=5000, fp4=10000, link=537, group=8, pcie=64,
        cc="gfx950", tdp=1400, rent=3.8, usable_gib=287.5,
    ),
    row("RX-7900-XTX", "AMD", "RDNA3", 24, 960, bf16=122.8, int8=122.8, pcie=32, cc="gfx1100", tdp=355),
    row("R9700", "AMD", "RDNA4", 32, 640, bf16=191, fp8=383, int8=383, pcie=64, cc="gfx1201", tdp=300),
    row(
        "RYZEN-AI-MAX-395", "AMD", "RDNA3.5", 128, 256, bf16=59, int8=59, cc="gfx1151", tdp=120, unified=True,
        aliases=("STRIX-HALO",), usable_gib=96.0,
    ),
    row("Gaudi2", "Intel", "Gaudi", 96, 2450, bf16=432, fp8=865, link=262.5, group=8, pcie=32, tdp=600, rent=1.3),
    row("Gaudi3", "Intel", "Gaudi", 128, 3700, bf16=1835, fp8=1835, link=525, group=8, pcie=64, tdp=900, rent=2.0),
    row("Arc-A770", "Intel", "Alchemist", 16, 560, bf16=137, int8=275, pcie=32, tdp=225, aliases=("A770",)),
    row("Arc-B580", "Intel", "Battlemage", 12, 456, bf16=116, int8=233, pcie=32, tdp=190, aliases=("B580",)),
    row("Arc-Pro-B60", "Intel", "Battlemage", 24, 456, bf16=98.3, int8=197, pcie=32, tdp=200, aliases=("B60",)),
    row(
        "Ascend-910B", "Huawei", "Da Vinci", 64, 1600, bf16=313, int8=626, link=196, group=8, pcie=32, tdp=400,
        usable_gib=60.96, aliases=("910B", "910B3", "ASCEND-910B3"),
    ),
    row(
        "Ascend-910B4", "Huawei", "Da Vinci", 32, 800, bf16=280, int8=560, link=196, group=8, pcie=32, tdp=400,
        aliases=("910B4",),
    ),
    row(
        "Ascend-910C", "Huawei", "Da Vinci", 128, 3200, bf16=752, int8=1504, link=392, group=384, pcie=64, tdp=700,
        aliases=("910C",),
    ),
    row("Ascend-310P", "Huawei", "Da Vinci", 24, 204.8, fp16=70, int8=140, pcie=16, tdp=72, aliases=("310P",)),
    row("K100-AI", "Hygon", "DCU", 64, 892, bf16=192, int8=392, pcie=32, usable_gib=63.98, aliases=("DCU-K100",)),
    row("C500", "MetaX", "MXC", 64, 1800, bf16=280, int8=560, pcie=64, tdp=350, usable_gib=63.59),
    row("TPU-v4", "Google", "TPU", 32, 1228, bf16=275, int8=275, link=150, group=64),
    row("TPU-v5e", "Google", "TPU", 16, 819, bf16=197, int8=393, link=200, group=256, rent=1.2),
    row("TPU-v5p", "Google", "TPU", 95, 2765, bf16=459, int8=918, link=600, group=64, rent=4.2),
    row("TPU-v6e", "Google", "TPU", 32, 1638, bf16=918, int8=1836, link=400, group=256, rent=2.7),
    row("TPU-v7x", "Google", "TPU", 192, 7370, bf16=2307, fp8=4614, link=600, group=64),
    row("Inferentia2", "AWS", "NeuronCore-v2", 32, 820, bf16=190, fp8=190, int8=380, link=192, group=12, rent=0.76),
    row("Trainium2", "AWS", "NeuronCore-v3", 96, 2900, bf16=667, fp8=1299, link=512, group=16, tdp=500, rent=1.5),
)  # fmt: skip
