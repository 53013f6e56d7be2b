from __future__ import annotations

import pytest

from controlplane.domain.footprint import engine_rules
from controlplane.domain.footprint.engine_rules import NEWEST, Version, parse_version, rules_for

GIB = 2**30


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.6.4?", (0, 6, 4)),
        ("0.6.5/0.6.6", (0, 6, 5)),
        ("0.21+", (0, 21, 0)),
        ("fork ~0.19", (0, 19, 0)),
        ("0.8.x (DTK)", (0, 8, 0)),
        ("v0.15.2rc1.dev93", (0, 15, 2)),
        ("fork", None),
        ("", None),
    ],
)
def test_versions_are_read_as_people_write_them(text: str, version: Version | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    "text", ["0.11.0", "fork", "fork ~0.19", "nightly", "main@8f3c2a1", "latest?", "V1", "", "8f3c2a1b9"]
)
def test_builds_are_called_by_a_number_or_a_word(text: str) -> None:
    assert engine_rules.names_a_build(text)


@pytest.mark.parametrize("text", ["abc", "11", "vllm", "deadbeef", "??x"])
def test_other_words_name_no_build(text: str) -> None:
    assert not engine_rules.names_a_build(text)


def test_the_default_share_rose_with_0_23() -> None:
    assert rules_for("0.22.0").default_utilization == 0.90
    assert rules_for("0.23.0").default_utilization == 0.92


def test_graphs_count_in_the_budget_from_0_21() -> None:
    assert not rules_for("0.20.0").graphs_inside_budget
    assert rules_for("0.21.0").graphs_inside_budget


def test_entries_of_latent_attention_were_aligned_in_0_7_alone() -> None:
    assert [rules_for(text).mla_entry_alignment_bytes for text in ("0.6.6", "0.7.2", "0.8.0")] == [1, 256, 1]


def test_the_null_block_is_left_out_in_0_32() -> None:
    assert rules_for("0.32.0").keeps_null_block
    assert not rules_for("0.31.0").keeps_null_block


def test_an_unknown_version_is_the_newest_and_says_so() -> None:
    rules = rules_for(None)
    assert rules.version == NEWEST
    assert "vllm_version is not given" in rules.assumption


def test_the_old_default_share_hints_at_an_older_engine() -> None:
    assert rules_for(None, utilization=0.90).version < (0, 23, 0)
    assert rules_for(None, utilization=0.90, oldest_for_model=(0, 19, 0)).version == NEWEST


def test_v0_without_chunked_prefill_takes_whole_prompts() -> None:
    rules = rules_for("0.7.2", "V0")
    assert rules.default_batched_tokens(24 * GIB, "RTX 3090", 29000) == 29000
    assert rules.default_batched_tokens(24 * GIB, "RTX 3090", 131072) == 2048


def test_large_cards_take_larger_batches_but_a100_does_not() -> None:
    rules = rules_for("0.11.0")
    assert rules.default_batched_tokens(79 * GIB, "H100 80GB", 8192) == 8192
    assert rules.default_batched_tokens(79 * GIB, "A100 80GB", 8192) == 2048
    assert rules.default_sequences(79 * GIB, "H100 80GB") == 1024
    assert rules.default_sequences(24 * GIB, "RTX 4090") == 256


def test_at_first_large_cards_were_known_by_name() -> None:
    assert rules_for("0.8.2").default_sequences(79 * GIB, "A100 80GB") == 256
    assert rules_for("0.8.5").default_sequences(79 * GIB, "A100 80GB") == 1024
    assert rules_for("0.8.2").default_sequences(79 * GIB, "H100 80GB") == 1024


def test_v0_is_no_more_from_0_11_on_and_that_is_told() -> None:
    found = rules_for("0.11.0", "V0")
    assert (found.generation, found.assumption) == ("V1", "V1 was taken: engines from 0.11 on have no V0 any more.")
    assert (rules_for("0.10.0", "V0").generation, rules_for("0.10.0", "V0").assumption) == ("V0", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "vllm_version is not given; the rules of 0.32"),
        ("main", 'vllm_version "main" names no version; the rules of 0.32'),
        ("4", 'vllm_version "4" names no version'),
        ("0.33.1", ""),
        ("0.41", "Version 0.41 is later than 0.33"),
        ("1.0.0", "Version 1.0 is later than 0.33"),
        ("0.5.4", "Version 0.5 is earlier than 0.6"),
    ],
)
def test_a_version_that_says_nothing_or_is_not_known_yet_is_told(text: str | None, said: str) -> None:
    assert rules_for(text).assumption.startswith(said)
    assert bool(rules_for(text).assumption) == bool(said)


@pytest.mark.parametrize(
    ("version", "engine", "capability", "generation"),
    [
        ("0.8.5", None, 7.5, "V0"),
        ("0.10.1", None, 7.0, "V0"),
        ("0.10.2", None, 7.5, "V1"),
        ("0.8.5", None, 8.0, "V1"),
        ("0.8.5", None, None, "V1"),
        ("0.8.5", "V1", 7.5, "V1"),
        ("0.7.3", None, 7.5, "V0"),
    ],
)
def test_cards_before_ampere_ran_v0_until_0_10_2(
    version: str, engine: str | None, capability: float | None, generation: str
) -> None:
    assert rules_for(version, engine, capability=capability).generation == generation


@pytest.mark.parametrize(
    ("version", "capability", "packed", "tokens"),
    [
        ("0.7.3", 9.0, False, 16),
        ("0.9.0", 8.0, False, 16),  # Triton, on all cards but Hopper
        ("0.9.0", 8.9, False, 16),
        ("0.9.0", 9.0, False, 64),  # FlashMLA
        ("0.32.0", 9.0, False, 16),  # FlashAttention
        ("0.32.0", 9.0, True, 64),
        ("0.32.0", 10.0, False, 32),  # FlashInfer
        ("0.32.0", 12.0, False, 16),
        ("0.32.0", None, False, 64),
    ],
)
def test_blocks_of_latent_attention_are_as_the_kernels_of_the_card_want_them(
    version: str, capability: float | None, packed: bool, tokens: int
) -> None:
    assert rules_for(version).latent_block_tokens(capability, packed=packed) == tokens


def test_sparse_latent_attention_has_blocks_of_64_tokens() -> None:
    assert rules_for("0.32.0").latent_block_tokens(9.0, sparse=True) == 64
