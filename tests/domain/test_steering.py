from __future__ import annotations

import pytest

from controlplane.domain import steering


@pytest.mark.parametrize(
    ("versions", "denied"),
    [([], True), (["0.31.1"], False), (["0.32.0"], True), (["0.31.1", "0.33.0rc1"], True), (["unknown"], True)],
)
def test_what_a_version_brought_is_denied_from_then_on_and_where_nothing_is_known(
    versions: list[str], denied: bool
) -> None:
    names = steering.fields("vllm", versions)
    assert ("watermarking" in names) is denied
    assert {"priority", "cache_salt", "kv_transfer_params", "vllm_xargs", "chat_template"} <= names


def test_an_endpoint_of_somebody_else_gets_nothing_that_steers_any_server_and_nothing_of_ours() -> None:
    names = steering.fields("external")
    assert steering.fields("vllm") < names
    assert {"models", "api_base", "rid", "service_tier", "lora_path"} <= names
    assert not steering.salted_paths("external")
    assert not names & {"model", "messages", "stream", "tools", "metadata", "user", "store", "prompt_cache_key"}


def test_other_engines_have_none() -> None:
    assert steering.fields("simulated", ["0.32.0"]) == frozenset()


def test_interactive_goes_first_inside_the_engine() -> None:
    assert [int(steering.priority(tier)) for tier in ("interactive", "standard", "batch", "new")] == [0, 1, 2, 1]
