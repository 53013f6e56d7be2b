from __future__ import annotations

import itertools
import random
import statistics

import pytest

from engine_adapters import registry
from engine_adapters.simulated import settings
from engine_adapters.simulated.demo.gateway_client import Gateway, send
from engine_adapters.simulated.demo.plan import DEPLOYMENTS, Arrival, DemoDeployment, activity, arrivals
from engine_adapters.simulated.demo.rest_client import ControlPlane, RestError
from tests.engine_adapters.running import KEY, RunningEngine, free_port

DAY_S = 900.0


def make_requests(count: int, seed: int = 1) -> list[Arrival]:
    return list(itertools.islice(arrivals(random.Random(seed), DAY_S, 1.0), count))


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment.name)
def test_a_deployment_of_the_plan_can_run(deployment: DemoDeployment) -> None:
    given = dict(deployment.wish()["settings"])  # type: ignore[call-overload]
    assert registry.get("simulated").validate(given) == []
    profile = settings.profile(given, deployment.tensor_parallel)
    assert profile.kv_blocks * profile.block_size > profile.max_model_len


def test_the_plan_fits_two_nodes_of_eight_cards() -> None:
    assert sum(deployment.replicas * deployment.tensor_parallel for deployment in DEPLOYMENTS) == 16


def test_requests_come_in_order_and_the_same_seed_brings_the_same() -> None:
    requests = make_requests(500)
    assert [one.at for one in requests] == sorted(one.at for one in requests)
    assert requests == make_requests(500)
    assert requests != make_requests(500, seed=2)


def test_every_request_fits_its_model() -> None:
    contexts = {deployment.name: deployment.context_tokens for deployment in DEPLOYMENTS}
    for one in make_requests(3000):
        assert one.prompt_tokens + 100 + one.output_tokens < contexts[one.deployment]


def test_lengths_have_the_plan_s_median() -> None:
    chosen = [one.prompt_tokens for one in make_requests(4000) if one.deployment == "demo-chat-8b"]
    assert statistics.median(chosen) == pytest.approx(2500, rel=0.1)


def test_the_day_has_a_busy_and_a_quiet_time() -> None:
    assert activity(0.5, 0.5) == 1.0
    assert activity(0.0, 0.5) == pytest.approx(0.1)
    assert activity(0.95, 0.05) == pytest.approx(activity(0.15, 0.05))


def test_the_busy_half_of_the_day_has_most_requests() -> None:
    requests = [one for one in make_requests(12_000) if one.at < DAY_S and one.deployment == "demo-chat-8b"]
    busy = [one for one in requests if 0.25 < one.at / DAY_S < 0.75]
    assert len(busy) > 2 * (len(requests) - len(busy))


def test_it_can_begin_at_any_time_of_the_day() -> None:
    night, noon = (next(arrivals(random.Random(1), DAY_S, 1.0, begin_at)).at for begin_at in (0.0, 0.5))
    assert noon < night


async def test_a_request_is_answered_by_what_speaks_openai(simulated_engine: RunningEngine) -> None:
    gateway = Gateway(f"http://127.0.0.1:{simulated_engine.place.port}", KEY)
    assert await send(gateway, Arrival(0, "test-model", 50, 20)) == 200
    assert await send(gateway, Arrival(0, "test-model", 50, 2000, leaves_after=2)) == 200
    assert await send(gateway, Arrival(0, "other", 50, 20)) == 404


async def test_a_gateway_that_is_away_counts_as_failed() -> None:
    assert await send(Gateway(f"http://127.0.0.1:{free_port()}", KEY), Arrival(0, "m", 1, 1)) == 0


def test_a_control_plane_that_is_away_is_one_sentence() -> None:
    with pytest.raises(RestError, match="GET /deployments/x/"):
        ControlPlane(f"http://127.0.0.1:{free_port()}", "t").call("GET", "/deployments/x/")
