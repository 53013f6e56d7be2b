from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from controlplane.domain.desired import AssignedAccelerator, EngineSpec, SettingValue
from controlplane.domain.errors import RefusedError
from controlplane.gateway.asks import MOST_INPUTS
from controlplane.gateway.sizes import SEQUENCES_MOST
from engine_adapters.base import LaunchPlace
from engine_adapters.vllm import argv, backstop

CARDS = (
    AssignedAccelerator("GPU-aa", "gpu", "GPU-aa"),
    AssignedAccelerator("GPU-bb", "gpu", "GPU-bb"),
)
CORES = (AssignedAccelerator("cpu-0", "cpu", "0-3"),)


def make_spec(build: str = "cpu", **settings: SettingValue) -> EngineSpec:
    return make_spec_of(settings, build)


def make_spec_of(settings: Mapping[str, SettingValue], build: str = "cpu") -> EngineSpec:
    return EngineSpec("vllm", "/models/m", "smollm2", settings, build=build)


def make_place(accelerators: tuple[AssignedAccelerator, ...] = CORES) -> LaunchPlace:
    return LaunchPlace("r1", "127.0.0.1", 4711, "hwr-secret", accelerators, "/env/python", "/code", "/work")


def value_of(arguments: tuple[str, ...], option: str) -> str:
    return arguments[arguments.index(option) + 1]


def test_it_starts_the_module_because_the_script_fails_with_the_cpu_build() -> None:
    command = argv.command(make_spec(), make_place())
    assert command.argv[:3] == ("/env/python", "-m", "vllm.entrypoints.openai.api_server")


def test_address_and_names_come_from_place_and_spec() -> None:
    arguments = argv.command(make_spec(), make_place()).argv
    assert value_of(arguments, "--host") == "127.0.0.1"
    assert value_of(arguments, "--port") == "4711"
    assert value_of(arguments, "--model") == "/models/m"
    assert value_of(arguments, "--served-model-name") == "smollm2"


def test_the_guard_is_loaded_from_the_code_root() -> None:
    command = argv.command(make_spec(), make_place())
    assert value_of(command.argv, "--middleware") == "engine_adapters.vllm.server.guard.Guard"
    assert command.env["PYTHONPATH"] == "/code"


def test_the_key_is_in_the_environment_only() -> None:
    command = argv.command(make_spec(), make_place())
    assert command.env["HEADWORKS_REPLICA_KEY"] == "hwr-secret"
    assert not any("hwr-secret" in word for word in command.argv)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("max_model_len", 2048, ["--max-model-len", "2048"]),
        ("max_num_seqs", 16, ["--max-num-seqs", "16"]),
        ("max_num_batched_tokens", 256, ["--max-num-batched-tokens", "256"]),
        ("dtype", "bfloat16", ["--dtype", "bfloat16"]),
        ("quantization", "fp8", ["--quantization", "fp8"]),
        ("kv_cache_dtype", "fp8", ["--kv-cache-dtype", "fp8"]),
        ("seed", 0, ["--seed", "0"]),
        ("scheduling_policy", "priority", ["--scheduling-policy", "priority"]),
        ("max_num_queued_reqs", 64, ["--max-num-queued-reqs", "64"]),
        ("allowed_media_domains", "a.example b.example", ["--allowed-media-domains", "a.example", "b.example"]),
        ("shutdown_timeout", 0, ["--shutdown-timeout", "0"]),
        ("enforce_eager", True, ["--enforce-eager"]),
        ("enforce_eager", False, []),
        ("enable_prefix_caching", True, ["--enable-prefix-caching"]),
        ("enable_prefix_caching", False, ["--no-enable-prefix-caching"]),
        ("trust_remote_code", True, ["--trust-remote-code"]),
        ("enable_expert_parallel", True, ["--enable-expert-parallel"]),
        ("enable_expert_parallel", False, []),
        ("data_parallel_size", 2, ["--data-parallel-size", "2"]),
        ("data_parallel_size", 1, []),
        ("extra_args", "--hf-overrides '{\"a\": 1}' --enable-lora", ["--hf-overrides", '{"a": 1}', "--enable-lora"]),
        ("max_model_len", None, []),
        ("quantization", "", []),
    ],
)
def test_a_setting_becomes_its_option(name: str, value: SettingValue, expected: list[str]) -> None:
    bare = argv.arguments(make_spec(), make_place())
    assert [word for word in argv.arguments(make_spec_of({name: value}), make_place()) if word not in bare] == expected


@pytest.mark.parametrize(
    ("version", "settings", "bound"),
    [
        ("0.32.0", {"max_num_seqs": 16}, 16 + 2048),
        ("0.29.0", {"max_num_seqs": 16, "data_parallel_size": 2}, 32 + 2048),
        ("0.32.1+cpu", {}, 1024 + 2048),  # the largest of vLLM's own defaults
        ("0.32.0", {"max_num_seqs": 16, "max_num_queued_reqs": 64}, 64),
        ("0.28.9", {"max_num_seqs": 16}, None),
        ("0.28.9", {"max_num_queued_reqs": 64}, 64),  # whoever gives it knows better
        ("", {"max_num_seqs": 16}, None),
        ("somebody's fork", {"max_num_seqs": 16}, None),
    ],
)
def test_what_waits_in_an_engine_is_bounded_where_its_version_knows_how(
    version: str, settings: dict[str, SettingValue], bound: int | None
) -> None:
    place = replace(make_place(), engine_version=version)
    arguments = tuple(argv.arguments(make_spec_of(settings), place))
    assert ("--max-num-queued-reqs" in arguments) == (bound is not None)
    assert bound is None or value_of(arguments, "--max-num-queued-reqs") == str(bound)


def test_the_bound_leaves_room_for_the_largest_list_that_a_gateway_lets_through() -> None:
    assert max(SEQUENCES_MOST, MOST_INPUTS) <= backstop.ROOM


def test_parallelism_is_named_only_where_there_is_some() -> None:
    assert "--tensor-parallel-size" not in argv.arguments(make_spec(), make_place())
    spec = replace(make_spec("cuda"), tensor_parallel=2, pipeline_parallel=3)
    arguments = tuple(argv.arguments(spec, make_place(CARDS)))
    assert value_of(arguments, "--tensor-parallel-size") == "2"
    assert value_of(arguments, "--pipeline-parallel-size") == "3"


def test_each_copy_of_attention_gets_cores_of_its_own() -> None:
    env = argv.command(make_spec(data_parallel_size=2), make_place()).env
    assert env["VLLM_CPU_OMP_THREADS_BIND"] == "0,1|2,3"


def test_a_gpu_build_sees_its_cards_by_uuid() -> None:
    env = argv.command(make_spec("cuda"), make_place(CARDS)).env
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-aa,GPU-bb"
    assert "VLLM_CPU_KVCACHE_SPACE" not in env


def test_a_gpu_build_without_cards_sees_none_of_the_machine() -> None:
    assert argv.command(make_spec("cuda"), make_place(())).env["CUDA_VISIBLE_DEVICES"] == ""


def test_a_gpu_build_takes_memory_by_arguments() -> None:
    spec = make_spec("cuda", gpu_memory_utilization=0.8, kv_cache_memory_bytes=2**30, block_size=32)
    arguments = tuple(argv.arguments(spec, make_place(CARDS)))
    assert value_of(arguments, "--gpu-memory-utilization") == "0.8"
    assert value_of(arguments, "--kv-cache-memory-bytes") == str(2**30)
    assert value_of(arguments, "--block-size") == "32"


def make_cards(*reserved: int, total: int = 80 * 2**30) -> tuple[AssignedAccelerator, ...]:
    return tuple(
        AssignedAccelerator(f"GPU-{index}", "gpu", f"GPU-{index}", memory_bytes=total, reserved_bytes=size)
        for index, size in enumerate(reserved)
    )


def test_a_share_of_the_card_becomes_bytes_of_the_smallest_one() -> None:
    place = make_place((*make_cards(0), *make_cards(0, total=40 * 2**30)))
    arguments = tuple(argv.arguments(make_spec("cuda", kv_cache_memory_share=0.25), place))
    assert value_of(arguments, "--kv-cache-memory-bytes") == str(10 * 2**30)
    assert "--gpu-memory-utilization" not in arguments


def test_a_share_of_a_card_whose_memory_nobody_knows_is_refused() -> None:
    with pytest.raises(RefusedError) as refused:
        argv.arguments(make_spec("cuda", kv_cache_memory_share=0.25), make_place(CARDS))
    assert refused.value.code == "card_memory_unknown"


def test_with_a_cap_an_engine_asks_only_for_what_is_reserved_to_be_free() -> None:
    spec = make_spec("cuda", kv_cache_memory_bytes=2**33)
    arguments = tuple(argv.arguments(spec, make_place(make_cards(20 * 2**30, 24 * 2**30))))
    assert value_of(arguments, "--gpu-memory-utilization") == "0.25"
    own = make_spec("cuda", kv_cache_memory_bytes=2**33, gpu_memory_utilization=0.5)
    arguments = tuple(argv.arguments(own, make_place(make_cards(20 * 2**30))))
    assert value_of(arguments, "--gpu-memory-utilization") == "0.5"
    uncapped = argv.arguments(make_spec("cuda"), make_place(make_cards(20 * 2**30)))
    assert "--gpu-memory-utilization" not in uncapped


def test_a_cpu_build_takes_memory_in_whole_gib_by_its_variable() -> None:
    command = argv.command(make_spec(kv_cache_memory_bytes=2**30 + 1, gpu_memory_utilization=0.9), make_place())
    assert command.env["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert "--kv-cache-memory-bytes" not in command.argv
    assert "--gpu-memory-utilization" not in command.argv


def test_a_cpu_build_has_one_gib_and_blocks_of_128_unless_told_otherwise() -> None:
    command = argv.command(make_spec(), make_place())
    assert command.env["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert value_of(command.argv, "--block-size") == "128"


def test_two_cpu_engines_on_one_machine_get_their_own_cores() -> None:
    one = argv.command(make_spec(), make_place((AssignedAccelerator("a", "cpu", "0"),))).env
    two = argv.command(make_spec(), make_place((AssignedAccelerator("b", "cpu", "1"),))).env
    assert (one["VLLM_CPU_OMP_THREADS_BIND"], two["VLLM_CPU_OMP_THREADS_BIND"]) == ("0", "1")


@pytest.mark.parametrize(
    ("groups", "ranks", "expected"),
    [
        (["0-3"], 1, "0-3"),
        (["0-3", "4-7"], 2, "0-3|4-7"),
        (["0-3"], 2, "0,1|2,3"),
        (["0-2"], 2, "0,1|2"),
        (["0-1", "8-9"], 1, "0,1,8,9"),
        ([], 2, ""),
    ],
)
def test_cores_are_dealt_out_to_the_ranks(groups: list[str], ranks: int, expected: str) -> None:
    assert argv.thread_binding(groups, ranks) == expected


def test_more_ranks_than_cores_is_refused() -> None:
    with pytest.raises(RefusedError) as refused:
        argv.thread_binding(["0-1"], 3)
    assert refused.value.code == "too_few_cores"


def test_a_local_folder_is_served_without_the_hub() -> None:
    assert argv.command(make_spec(), make_place()).env["HF_HUB_OFFLINE"] == "1"
    by_name = replace(make_spec(), model_path="org/model")
    assert "HF_HUB_OFFLINE" not in argv.command(by_name, make_place()).env


def test_nothing_is_reported_home_and_caches_are_the_replica_s_own() -> None:
    env = argv.command(make_spec(), make_place()).env
    assert env["VLLM_NO_USAGE_STATS"] == env["DO_NOT_TRACK"] == "1"
    assert all(env[name].startswith("/work/") for name in ("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR"))


@pytest.mark.parametrize(
    ("folder", "eager", "disabled"), [("/my data", True, True), ("/my data", False, False), ("/d", True, False)]
)
def test_where_a_path_has_a_space_an_eager_engine_does_not_compile(folder: str, eager: bool, disabled: bool) -> None:
    """Its compiler could not; one that is to be compiled says so at its start."""
    env = argv.command(make_spec(enforce_eager=eager), replace(make_place(), work_dir=folder)).env
    assert ("TORCH_COMPILE_DISABLE" in env) == disabled


def test_without_an_engine_environment_it_says_what_to_do() -> None:
    with pytest.raises(RefusedError) as refused:
        argv.command(make_spec(), replace(make_place(), engine_python=""))
    assert refused.value.code == "engine_missing"
    assert "HEADWORKS_ENGINE_PYTHON" in refused.value.hint
