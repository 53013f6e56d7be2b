"""The settings of a vLLM deployment: what an operator may give and what is wrong with it. Pure, imports no vLLM."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from controlplane.domain.desired import SettingValue
from engine_adapters.base import SettingField, SettingProblem
from engine_adapters.checks import check_fields, given

GIB = 1024**3

FIELDS: tuple[SettingField, ...] = (
    SettingField(
        "max_model_len", "int", "Context length",
        "Longest prompt and answer together. Empty: what the model's configuration says.",
        minimum=1, maximum=100_000_000, unit="tokens",
    ),
    SettingField(
        "max_num_seqs", "int", "Seats",
        "Requests that run in one batch; more wait in the engine. Empty: the engine's default.",
        minimum=1, maximum=100_000, unit="requests",
    ),
    SettingField(
        "max_num_batched_tokens", "int", "Tokens a step",
        "Budget of tokens in one step. Smaller steps keep running answers fluent while long prompts are read.",
        minimum=1, maximum=10_000_000, unit="tokens",
    ),
    SettingField(
        "dtype", "choice", "Compute type",
        "Type of weights and activations; auto takes the model's own.",
        default="auto", choices=("auto", "bfloat16", "float16", "float32"),
    ),
    SettingField(
        "quantization", "text", "Quantization",
        "Method by vLLM's name, such as fp8 or awq. Empty: what the model's files say.",
    ),
    SettingField(
        "kv_cache_dtype", "choice", "KV cache type",
        "fp8 halves the memory of a token against 16-bit types, with a small loss of precision.",
        default="auto",
        choices=("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla", "nvfp4"),
    ),
    SettingField(
        "gpu_memory_utilization", "float", "Share of GPU memory",
        "Part of each card's memory that the engine may use in all. GPU builds only.",
        minimum=0.05, maximum=0.99,
    ),
    SettingField(
        "kv_cache_memory_bytes", "int", "KV cache memory",
        "Memory of the KV cache on each accelerator, instead of what the share leaves over. On CPU nodes it counts in "
        "whole GiB, and empty means 1 GiB, because the machine's memory is shared.",
        minimum=1024**2, maximum=1024**5, unit="bytes",
    ),
    SettingField(
        "kv_cache_memory_share", "float", "KV cache share",
        "The same as a part of each card's memory: a hard limit, whatever is left over. GPU builds only.",
        minimum=0.01, maximum=0.95,
    ),
    SettingField(
        "block_size", "int", "Block size",
        "Tokens in one block of the KV cache. Empty: the engine's choice, 128 on CPU.",
        minimum=1, maximum=1024, unit="tokens",
    ),
    SettingField(
        "enable_prefix_caching", "bool", "Prefix caching",
        "Keeps the KV cache of prompt beginnings for requests that share them. Empty: the engine's default (on).",
    ),
    SettingField(
        "enforce_eager", "bool", "No compilation",
        "Starts in a fraction of the time, answers more slowly: no compiled graphs.",
    ),
    SettingField(
        "data_parallel_size", "int", "Copies of attention",
        "Groups of ranks that each take their own requests through attention and share one set of experts. A replica "
        "takes as many times the accelerators. Empty: 1.",
        minimum=1, maximum=64,
    ),
    SettingField(
        "enable_expert_parallel", "bool", "Whole experts on ranks",
        "Experts of a mixture are dealt out to the ranks whole, instead of each being cut over all of them.",
    ),
    SettingField(
        "scheduling_policy", "choice", "Order in the engine",
        "fcfs: first come, first served. priority: by each request's priority.",
        default="fcfs", choices=("fcfs", "priority"),
    ),
    SettingField(
        "seed", "int", "Seed", "Start value of the engine's random numbers.", minimum=0, maximum=2**32 - 1,
    ),
    SettingField(
        "shutdown_timeout", "int", "Shutdown time limit",
        "How long the engine finishes running requests after it was told to end. Only newer versions have it "
        "(0.32 does). Headworks drains before, so it is rarely needed.",
        minimum=0, maximum=3600, unit="s",
    ),
    SettingField(
        "max_num_queued_reqs", "int", "Most requests in the engine",
        "Running and waiting together; more are refused with 503. A backstop: the gateway already lets in no more than "
        "there are seats. Empty: the seats and 2,048, from vLLM 0.29 on; older versions do not have it.",
        minimum=1, maximum=1_000_000, unit="requests",
    ),
    SettingField(
        "allowed_media_domains", "text", "Domains of media",
        "Hosts that the engine may fetch pictures, sounds and films from, with spaces between. Gateways refuse others "
        "before (HEADWORKS_MEDIA_DOMAINS). Only newer versions have it (0.32 does).",
    ),
    SettingField(
        "trust_remote_code", "bool", "Run code from the model's files",
        "Some models bring their own Python code. It runs on the node with the engine's rights.",
    ),
    SettingField(
        "extra_args", "text", "Further arguments",
        "More of vLLM's long options, as on a command line: --long-prefill-token-threshold 512. Options that "
        "Headworks sets itself are refused.",
    ),
)  # fmt: skip

# option -> why it can't be given as a further argument
OWNED: Mapping[str, str] = {
    **dict.fromkeys(
        ("host", "port", "uds", "grpc", "grpc-port", "root-path", "headless", "api-server-count", "config",
         "ssl-keyfile", "ssl-certfile", "ssl-ca-certs", "ssl-cert-reqs", "ssl-ciphers", "enable-ssl-refresh",
         "data-parallel-supervisor-port", "data-parallel-rank", "data-parallel-start-rank",
         "data-parallel-size-local", "data-parallel-address", "data-parallel-rpc-port", "data-parallel-backend",
         "data-parallel-hybrid-lb", "data-parallel-external-lb", "data-parallel-multi-port-external-lb",
         "master-addr", "master-port", "nnodes", "node-rank", "device-ids", "distributed-executor-backend",
         "numa-bind", "numa-bind-nodes", "numa-bind-cpus"),
        "Headworks decides where the engine runs and listens.",
    ),
    **dict.fromkeys(
        ("api-key", "middleware", "allowed-origins", "allow-credentials", "allowed-methods", "allowed-headers",
         "enable-offline-docs", "enable-scale-out", "enable-tokenizer-info-endpoint", "enable-elastic-ep"),
        "Headworks guards the engine's port.",
    ),
    **dict.fromkeys(
        ("model", "served-model-name", "tensor-parallel-size", "pipeline-parallel-size", "lora-modules", "hf-token"),
        "It is given by the model, the variant or the deployment.",
    ),
    **dict.fromkeys(
        ("tool-parser-plugin", "reasoning-parser-plugin", "io-processor-plugin", "logits-processors", "worker-cls",
         "worker-extension-cls", "scheduler-cls", "tool-server", "model-class-overrides"),
        "It loads code or reaches servers that Headworks does not know.",
    ),
    **dict.fromkeys(
        ("allowed-local-media-path", "download-dir", "log-config-file", "logging-config", "otlp-traces-endpoint",
         "profiler-config", "kv-transfer-config", "kv-events-config", "ec-transfer-config", "weight-transfer-config"),
        "It opens files or addresses of the node.",
    ),
    **dict.fromkeys(
        ("enable-log-requests", "enable-log-outputs", "enable-log-deltas", "log-error-stack"),
        "It writes what users send into the log.",
    ),
    **dict.fromkeys(
        ("disable-log-stats", "uvicorn-log-level", "log-level", "disable-uvicorn-access-log", "help"),
        "Headworks reads the engine's metrics and log.",
    ),
}  # fmt: skip

# options of their own that begin like one above
_WHOLE_NAMES = frozenset({"reasoning-parser"})

_OPTION = re.compile(r"--[a-z0-9][a-z0-9_.-]*(=.*)?", re.IGNORECASE | re.DOTALL)
_NUMBER = re.compile(r"-\d+(\.\d+)?")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_METHOD = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def validate(settings: Mapping[str, SettingValue]) -> list[SettingProblem]:
    """Returns what is wrong with the settings of a vLLM deployment."""
    problems = check_fields(FIELDS, settings)
    wrong = {problem.field for problem in problems}
    quantization = given(settings, "quantization")
    if isinstance(quantization, str) and "quantization" not in wrong and not _METHOD.fullmatch(quantization):
        problems.append(SettingProblem("quantization", "Give one method by its name, such as fp8 or awq."))
    seats, budget = given(settings, "max_num_seqs"), given(settings, "max_num_batched_tokens")
    if isinstance(seats, int) and isinstance(budget, int) and budget < seats:
        problems.append(
            SettingProblem("max_num_batched_tokens", f"A step needs a token for each seat: at least {seats}.")
        )
    if given(settings, "kv_cache_memory_bytes") is not None and given(settings, "kv_cache_memory_share") is not None:
        text = "Give the KV cache in bytes or as a share, not both."
        problems.append(SettingProblem("kv_cache_memory_share", text))
    domains = given(settings, "allowed_media_domains")
    if isinstance(domains, str) and not all(_HOST.fullmatch(one) for one in domains.split()):
        problems.append(SettingProblem("allowed_media_domains", "Give names of hosts with spaces between."))
    extra = given(settings, "extra_args")
    if isinstance(extra, str) and "extra_args" not in wrong:
        problem = check_extra(extra)
        if problem:
            problems.append(SettingProblem("extra_args", problem))
    return problems


def split_extra(text: str) -> list[str]:
    """Returns the further arguments as a list; raises ValueError when a quotation mark is left open."""
    return shlex.split(text)


def check_extra(text: str) -> str:
    """Returns why the further arguments can't be used, the empty text when they can."""
    try:
        words = split_extra(text)
    except ValueError:
        return "A quotation mark is not closed."
    expects_option = True
    for word in words:
        if word.startswith("--"):
            problem = _check_option(word)
            if problem:
                return problem
            expects_option = False
        elif word.startswith("-") and not _NUMBER.fullmatch(word):
            return f"Write {word!r} by its long name, which begins with two hyphens."
        elif expects_option:
            return f"{word!r} stands before any option."
    return ""


def _check_option(word: str) -> str:
    if not _OPTION.fullmatch(word):
        return f"{word!r} is no option of vLLM."
    name = option_name(word)
    for field in FIELDS:
        if _may_mean(name, field.name.replace("_", "-")):
            return f"--{name} can't be given here: use the setting {field.name}."
    for owned, why in OWNED.items():
        if _may_mean(name, owned):
            return f"--{name} can't be given here. {why}"
    return ""


def _may_mean(name: str, option: str) -> bool:
    # argparse takes any beginning of an option's name for the option, and the part behind a dot is one of its fields
    if name in _WHOLE_NAMES:
        return False
    first = name.split(".", maxsplit=1)[0]
    return option.startswith(first) or f"no-{option}".startswith(first)


def option_name(word: str) -> str:
    """Returns the name of an option as vLLM spells it: `--Max_Num_Seqs=4` is `max-num-seqs`."""
    return word[2:].split("=", 1)[0].replace("_", "-").lower()
