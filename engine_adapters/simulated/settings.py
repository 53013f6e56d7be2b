"""The settings of a simulated deployment: the model's size, the card, and the engine's knobs by vLLM's names.

Without any setting it is a model of 8 billion parameters in 16 bits with grouped-query attention on one H100.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controlplane.domain import simulated_timing
from controlplane.domain.desired import AssignedAccelerator, SettingValue
from engine_adapters.base import SettingField, SettingProblem
from engine_adapters.checks import check_fields, given

GB = 1e9

FIELDS: tuple[SettingField, ...] = (
    SettingField(
        "parameters_billion", "float", "Parameters", "Those that take part in computing one token.",
        default=8.03, minimum=0.001, maximum=10_000, unit="billion",
    ),
    SettingField(
        "weights_gb", "float", "Weights", "Memory of the weights. Empty: two bytes a parameter.",
        minimum=0.001, maximum=100_000, unit="GB",
    ),
    SettingField(
        "kv_bytes_per_token", "int", "KV cache a token",
        "Layers x 2 x KV heads x head size x bytes: 131,072 for an 8B model with grouped-query attention.",
        default=131_072, minimum=1, maximum=10_000_000, unit="bytes",
    ),
    SettingField(
        "memory_gb", "float", "Card: memory", "Empty: what the assigned card has, 80 GB where that is unknown.",
        minimum=1, maximum=10_000, unit="GB",
    ),
    SettingField(
        "bandwidth_gb_per_s", "float", "Card: bandwidth",
        "Empty: what the assigned card has, 3,350 GB/s where that is unknown.",
        minimum=1, maximum=1_000_000, unit="GB/s",
    ),
    SettingField(
        "tflops", "float", "Card: speed", "Dense 16-bit operations.",
        default=989.0, minimum=0.01, maximum=1_000_000, unit="TFLOP/s",
    ),
    SettingField(
        "gpu_memory_utilization", "float", "Share of GPU memory", "Part of each card's memory that the engine may use.",
        default=0.9, minimum=0.05, maximum=0.99,
    ),
    SettingField(
        "max_model_len", "int", "Context length", "Longest prompt and answer together.",
        default=8192, minimum=16, maximum=10_000_000, unit="tokens",
    ),
    SettingField(
        "max_num_seqs", "int", "Seats", "Requests that run in one batch.",
        default=256, minimum=1, maximum=10_000, unit="requests",
    ),
    SettingField(
        "max_num_batched_tokens", "int", "Tokens a step", "Budget of tokens in one step.",
        default=8192, minimum=1, maximum=1_000_000, unit="tokens",
    ),
    SettingField(
        "block_size", "int", "Block size", "Tokens in one block of the KV cache.",
        default=16, minimum=1, maximum=1024, unit="tokens",
    ),
    SettingField(
        "stream_interval", "int", "Tokens an event", "Tokens that are sent together when an answer is streamed.",
        default=1, minimum=1, maximum=1000, unit="tokens",
    ),
    SettingField(
        "start_s", "float", "Start-up time", "How long it takes until the engine answers.",
        default=1.0, minimum=0, maximum=3600, unit="s",
    ),
    SettingField(
        "dies_on_first_generation", "bool", "Dies on the first generation",
        "Answers /health and ends at the first request, as broken engines do. For tests of the lifecycle.",
    ),
)  # fmt: skip

_DEFAULTS = {field.name: field.default for field in FIELDS}


def validate(settings: Mapping[str, SettingValue]) -> list[SettingProblem]:
    """Returns what is wrong with the settings of a simulated deployment."""
    problems = check_fields(FIELDS, settings)
    if problems:
        return problems
    if number(settings, "max_num_batched_tokens") < number(settings, "max_num_seqs"):
        seats = int(number(settings, "max_num_seqs"))
        message = f"A step needs a token for each seat: at least {seats}."
        problems.append(SettingProblem("max_num_batched_tokens", message))
    return problems


def number(settings: Mapping[str, SettingValue], name: str, otherwise: float = 0.0) -> float:
    """Returns a setting as a number: as given, else its default, else `otherwise`."""
    for value in (given(settings, name), _DEFAULTS[name]):
        if isinstance(value, int | float):
            return float(value)
    return otherwise


def profile(
    settings: Mapping[str, SettingValue], cards: int = 1, assigned: Sequence[AssignedAccelerator] = ()
) -> simulated_timing.Profile:
    """Returns what the timing model needs; the assigned card's own figures count where no setting says otherwise."""
    parameters = number(settings, "parameters_billion") * 1e9
    weights = number(settings, "weights_gb", otherwise=2 * parameters / GB) * GB
    own = assigned[0] if assigned else None
    memory = number(settings, "memory_gb", (own.memory_bytes / GB if own and own.memory_bytes else 80.0)) * GB
    own_bandwidth = own.bandwidth_bytes_per_s / GB if own and own.bandwidth_bytes_per_s else 3350.0
    bandwidth = number(settings, "bandwidth_gb_per_s", own_bandwidth) * GB
    card = simulated_timing.Card(memory, bandwidth, number(settings, "tflops") * 1e12)
    reached_bandwidth, reached_flops = simulated_timing.reached(card, cards)
    block_size = int(number(settings, "block_size"))
    block_bytes = block_size * number(settings, "kv_bytes_per_token")
    share = number(settings, "gpu_memory_utilization")
    return simulated_timing.Profile(
        weights_bytes=weights,
        parameters=parameters,
        kv_bytes_per_token=number(settings, "kv_bytes_per_token"),
        bandwidth_bytes_per_s=reached_bandwidth,
        flops_per_s=reached_flops,
        kv_blocks=simulated_timing.kv_blocks(card, cards, share, weights, block_bytes),
        block_size=block_size,
        max_model_len=int(number(settings, "max_model_len")),
        max_num_seqs=int(number(settings, "max_num_seqs")),
        max_num_batched_tokens=int(number(settings, "max_num_batched_tokens")),
    )
