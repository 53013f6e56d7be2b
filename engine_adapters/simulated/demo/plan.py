"""What the demonstration shows: three models on a simulated cluster, and the requests of a day on fast forward.

Pure: chance and time are passed in.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.domain.desired import SettingValue

CHARACTERS_A_TOKEN = 4  # as the simulated engine counts


@dataclass(frozen=True, slots=True)
class DemoDeployment:
    """One deployment of the demonstration, and what its users send. Lengths are medians of lognormal distributions."""

    name: str
    model: str
    parameters: int
    replicas: int
    tensor_parallel: int
    settings: Mapping[str, SettingValue]
    peak_requests_per_s: float
    busiest_at: float  # share of the day, 0 to 1
    prompt_tokens: int
    output_tokens: int
    spread: float = 0.8  # sigma of both lengths
    leaving: float = 0.03  # share of the users who close the connection in the middle
    context_tokens: int = field(default=32_768)

    def wish(self) -> dict[str, object]:
        """Returns the deployment as REST takes it."""
        return {
            "engine": "simulated",
            "variant": f"{self.model}/bf16",
            "replicas": self.replicas,
            "tensor_parallel": self.tensor_parallel,
            "settings": {**self.settings, "max_model_len": self.context_tokens, "stream_interval": 8, "start_s": 3},
            "note": "Demonstration on simulated cards.",
        }


# 16 cards of 80 GB: two nodes with eight each
DEPLOYMENTS: tuple[DemoDeployment, ...] = (
    DemoDeployment(
        "demo-chat-8b", "demo-chat-8b", 8_030_000_000, 4, 1,
        # half of each card is left to others, so that a demonstration's traffic can fill the cache
        {"parameters_billion": 8.03, "kv_bytes_per_token": 131_072, "max_num_seqs": 48, "gpu_memory_utilization": 0.4},
        peak_requests_per_s=8.0, busiest_at=0.5, prompt_tokens=2500, output_tokens=500,
    ),
    DemoDeployment(
        "demo-code-32b", "demo-code-32b", 32_800_000_000, 2, 2,
        {"parameters_billion": 32.8, "kv_bytes_per_token": 262_144, "max_num_seqs": 32, "gpu_memory_utilization": 0.6},
        peak_requests_per_s=3.0, busiest_at=0.65, prompt_tokens=4000, output_tokens=600,
    ),
    DemoDeployment(
        "demo-chat-70b", "demo-chat-70b", 70_600_000_000, 2, 4,
        {"parameters_billion": 70.6, "kv_bytes_per_token": 327_680, "max_num_seqs": 32, "gpu_memory_utilization": 0.7},
        peak_requests_per_s=2.5, busiest_at=0.4, prompt_tokens=2000, output_tokens=600,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request: when it is sent (seconds since the start), to whom and how long it is."""

    at: float
    deployment: str
    prompt_tokens: int
    output_tokens: int
    leaves_after: int | None = None  # events after which the user closes the connection


def activity(share_of_day: float, busiest_at: float) -> float:
    """Returns how busy a moment is, 0.1 at night to 1 at the busiest time; a day is a circle."""
    distance = abs((share_of_day - busiest_at + 0.5) % 1.0 - 0.5) * 2.0  # 0 at the busiest time, 1 opposite to it
    return 0.1 + 0.9 * math.pow(0.5 + 0.5 * math.cos(math.pi * distance), 1.5)


def rate(deployment: DemoDeployment, at: float, day_s: float, scale: float) -> float:
    """Returns the requests a second at a moment; every tenth of a day there is a short rush."""
    share = (at / day_s) % 1.0
    rush = 1.6 if (share * 10) % 1.0 < 0.12 else 1.0
    return scale * rush * deployment.peak_requests_per_s * activity(share, deployment.busiest_at) / 1.6


def arrivals(
    chance: random.Random,
    day_s: float,
    scale: float,
    begin_at: float = 0.0,
    deployments: Sequence[DemoDeployment] = DEPLOYMENTS,
) -> Iterator[Arrival]:
    """Yields requests without end in the order of their times: a Poisson stream whose rate follows the day.

    The first moment is at the share `begin_at` of the day.
    """
    most = scale * sum(deployment.peak_requests_per_s for deployment in deployments)
    now = 0.0
    while True:
        now += chance.expovariate(most)
        pick = chance.random() * most
        for deployment in deployments:
            pick -= rate(deployment, now + begin_at * day_s, day_s, scale)
            if pick < 0:
                yield _request(chance, now, deployment)
                break


def _request(chance: random.Random, now: float, deployment: DemoDeployment) -> Arrival:
    output = _length(chance, deployment.output_tokens, deployment.spread, deployment.context_tokens // 4)
    prompt = _length(chance, deployment.prompt_tokens, deployment.spread, deployment.context_tokens // 2)
    leaves = chance.randint(1, 10) if chance.random() < deployment.leaving else None
    return Arrival(now, deployment.name, prompt, output, leaves)


def _length(chance: random.Random, median: int, spread: float, most: int) -> int:
    return max(1, min(most, round(chance.lognormvariate(math.log(median), spread))))
