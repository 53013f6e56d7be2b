from __future__ import annotations

import sys

import pytest

from controlplane.domain.desired import AssignedAccelerator, EngineSpec, SettingValue
from engine_adapters.base import LaunchPlace
from engine_adapters.simulated import argv, settings
from engine_adapters.simulated.server.__main__ import parser

H200 = AssignedAccelerator("h", "simulated", "0", "H200", 141_000_000_000, 4.8e12)


def make_place(*accelerators: AssignedAccelerator) -> LaunchPlace:
    return LaunchPlace("r1", "127.0.0.1", 4711, "hwr-secret", accelerators, "", "/code", "/work")


def arguments(given: dict[str, SettingValue], *accelerators: AssignedAccelerator, cards: int = 1) -> tuple[str, ...]:
    spec = EngineSpec("simulated", "", "m", given, tensor_parallel=cards)
    return argv.command(spec, make_place(*accelerators)).argv


@pytest.mark.parametrize(
    "given",
    [{"parameters_billion": 0}, {"tflops": "fast"}, {"max_num_seqs": 1.5}, {"dies_on_first_generation": 1}, {"x": 1}],
)
def test_a_wrong_value_is_named(given: dict[str, SettingValue]) -> None:
    assert [problem.field for problem in settings.validate(given)] == list(given)


def test_a_step_needs_a_token_for_each_seat() -> None:
    assert settings.validate({"max_num_seqs": 64, "max_num_batched_tokens": 32})


def test_without_settings_it_is_an_8b_model_on_an_h100() -> None:
    profile = settings.profile({})
    assert profile.weights_bytes == pytest.approx(16.06e9)
    assert profile.kv_blocks * profile.block_size == pytest.approx(410_000, rel=0.01)


def test_an_assigned_card_brings_its_own_figures() -> None:
    larger = settings.profile({}, assigned=[H200])
    assert larger.kv_blocks > settings.profile({}).kv_blocks
    assert larger.bandwidth_bytes_per_s > settings.profile({}).bandwidth_bytes_per_s


def test_a_setting_counts_more_than_the_card() -> None:
    assert settings.profile({"memory_gb": 80.0}, assigned=[H200]).kv_blocks == settings.profile({}).kv_blocks


def test_it_runs_in_the_interpreter_of_headworks_and_needs_no_engine() -> None:
    assert arguments({})[:3] == (sys.executable, "-m", "engine_adapters.simulated.server")


def test_the_card_s_figures_become_arguments() -> None:
    words = arguments({}, H200)
    assert words[words.index("--memory-gb") + 1] == "141"
    assert words[words.index("--bandwidth-gb-per-s") + 1] == "4800"
    assert arguments({"memory_gb": 24.0}, H200)[words.index("--memory-gb") + 1] == "24"


def test_settings_become_arguments_that_the_server_takes() -> None:
    given: dict[str, SettingValue] = {"max_num_seqs": 8, "tflops": 312.5, "dies_on_first_generation": True}
    parsed = parser().parse_args(arguments(given, cards=2)[3:])
    assert (parsed.max_num_seqs, parsed.tflops, parsed.dies_on_first_generation, parsed.cards) == (8, 312.5, True, 2)


def test_every_setting_has_an_option() -> None:
    options = {option for action in parser()._actions for option in action.option_strings}
    assert {argv.option(field.name) for field in settings.FIELDS} <= options
