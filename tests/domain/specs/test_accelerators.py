from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.specs.accelerator_rows import GIB, usable_bytes
from controlplane.domain.specs.accelerators import ACCELERATORS, find, like, names

SHARED = Path(os.environ.get("HEADWORKS_SHARED", Path(__file__).resolve().parents[4] / "shared"))
TABLE = SHARED / "data/perf/gpus.json"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("H100", "H100-SXM"),
        ("8x H100", "H100-SXM"),
        ("8xH100", "H100-SXM"),
        ("2 x L40S (48GB)", "L40S"),
        ("4090D", "RTX-4090"),
        ("RTX 4070 Ti SUPER", "RTX-4070Ti-Super"),
        ("Quadro RTX 8000", "Quadro-RTX-8000"),
        ("MetaX C500", "C500"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIe-80GB"),
        ("A100-PCIE-40GB", "A100-PCIe-40GB"),
        ("A100 40GB", "A100-SXM-40GB"),
        ("Tesla V100-SXM2-16GB", "V100-16GB-SXM2"),
        ("Tesla T4", "T4"),
        ("RTX 3090", "RTX-3090"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000-Server"),
        ("NVIDIA GH200 480GB", "GH200-96GB"),
        ("DGX Spark GB10", "GB10-DGX-Spark"),
        ("AMD Instinct MI300X", "MI300X"),
        ("TPU v6e", "TPU-v6e"),
        ("B200 192GB", "B200-SXM"),
    ],
)
def test_a_card_is_found_however_it_is_written(written: str, meant: str) -> None:
    card = find(written)
    assert card is not None
    assert card.name == meant


@pytest.mark.parametrize(
    "written",
    ["", "24GB card", "H100 40GB", "A10G/L4", "A100 MIG 1g.5gb", "RTX 4090 Laptop", "H1000", "x" * 5000, "H100 foo"],
)
def test_what_is_no_single_known_card_is_not_found(written: str) -> None:
    assert find(written) is None


def test_every_name_and_alias_finds_its_own_card() -> None:
    for card in ACCELERATORS:
        for name in (card.name, *card.aliases):
            assert find(name) is card, name


def test_names_are_unique() -> None:
    assert len(set(names())) == len(ACCELERATORS)


@given(st.text(max_size=300))
def test_any_text_gives_a_card_or_nothing(text: str) -> None:
    assert find(text) is None or find(text) in ACCELERATORS


def test_usable_memory_is_what_the_driver_reports_or_a_usual_share() -> None:
    for card in ACCELERATORS:
        assert 0.7 * card.memory_bytes < usable_bytes(card) <= card.memory_bytes
    l4, a30 = find("L4"), find("A30")
    assert l4 is not None
    assert a30 is not None
    assert usable_bytes(l4) == int(22.06 * GIB)
    assert usable_bytes(a30) == int(24 * GIB * 0.985)


def test_every_card_has_a_rate_of_sixteen_bits_and_a_bandwidth() -> None:
    for card in ACCELERATORS:
        assert card.bandwidth_bytes_per_s > 1e10
        assert card.fp16_flops is not None
        assert (card.link_bytes_per_s is None) == (card.link_group is None)


@pytest.mark.skipif(not TABLE.exists(), reason="HEADWORKS_SHARED is not there")
def test_the_table_agrees_with_published_sheets() -> None:
    looked_up = 0
    for sheet in json.loads(TABLE.read_text())["gpus"]:
        card = find(sheet["name"])
        assert card is not None
        assert card.name == sheet["name"]
        for field, value in (
            ("memory_gib", card.memory_bytes / GIB),
            ("memory_bandwidth_gb_s", card.bandwidth_bytes_per_s / 1e9),
            ("fp16_dense_tflops", (card.fp16_flops or 0) / 1e12),
        ):
            if (card.name, field) == ("RTX-PRO-6000-Server", "memory_bandwidth_gb_s"):
                continue  # the vendor's sheet of the server card says 1597, that of the workstation card 1792
            if field in sheet["looked_up_fields"]:
                looked_up += 1
                assert value == pytest.approx(sheet[field]), (card.name, field)
    assert looked_up > 50


@pytest.mark.parametrize(
    ("written", "meant"),
    [("RTX 4080 Laptop", "RTX-4080"), ("GeForce RTX 3090Tii", "RTX-3090Ti"), ("MI300", "MI300X")],
)
def test_of_an_unknown_card_the_nearest_known_ones_are_named(written: str, meant: str) -> None:
    assert find(written) is None
    assert meant in like(written)


def test_nothing_is_near_a_card_that_is_like_no_other() -> None:
    assert like("Flux Capacitor") == ()
