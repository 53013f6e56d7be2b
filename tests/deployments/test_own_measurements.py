"""What replicas measured calibrates the planner for their model, card and engine, and says whose it is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.deployments.models import Deployment, Replica
from controlplane.deployments.planner import answers, inputs, own_measurements
from controlplane.deployments.planner.answers import Answer
from controlplane.lib import histograms
from controlplane.telemetry import selectors as telemetry
from controlplane.telemetry.models import RollupMinute
from controlplane.telemetry.services import partitions
from tests.console import making
from tests.console.making_ledgers import make_ledger

pytestmark = [pytest.mark.services, pytest.mark.django_db]
QUESTION = {"model": "Llama-3.1-8B-Instruct", "gpu": "H100 80GB", "tensor_parallel": 1, "input_tokens": 900.0}


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    own_measurements.forget()


def make_ran(name: str = "chat", model: str = "llama-3.1-8b-instruct", **values: Any) -> Replica:
    """A replica on an H100 that has run."""
    variant = making.make_variant(model, "bf16", source="meta-llama/Llama-3.1-8B-Instruct")
    settings = values.pop("settings", {"max_model_len": 8192, "max_num_seqs": 64})
    deployment = making.make_deployment(name, variant=variant, settings=settings)
    replica = making.make_replica(deployment, making.make_node(f"gpu-of-{name}", cards=1))
    make_ledger(replica, **values)
    return replica


def make_minutes(replica: Replica, *, tpot_s: float, running: float = 8.0, minutes: int = 5, **values: Any) -> None:
    now = values.pop("now", timezone.now()).replace(second=0, microsecond=0)
    partitions.keep(now=now, keep_days=30)
    for ago in range(1, minutes + 1):
        RollupMinute.objects.create(
            minute=now - timedelta(minutes=ago),
            subject=f"replica:{replica.pk}",
            counters={"requests": 60, "prompt_tokens": 60 * 900, "output_tokens": 60 * 250},
            gauges={"running": [running, running + 2]},
            histograms={
                "tpot": {str(histograms.bucket_of(tpot_s)): 60},
                "ttft": {str(histograms.bucket_of(values.get("ttft_s", 0.05))): 60},
            },
        )


def ask(**changes: Any) -> Answer:
    return answers.estimate(inputs.read({**QUESTION, **changes}))


def test_what_own_replicas_measured_is_applied_and_told_with_its_source() -> None:
    plain = ask().chosen
    assert plain is not None
    make_minutes(make_ran(), tpot_s=0.012)
    answer = ask()
    found, chosen = answer.calibration, answer.chosen
    assert found is not None and chosen is not None and answer.before is not None
    assert found.source == "own"
    assert found.origin == (
        "Measured by chat, revision 1, as TP 1 with vLLM 0.32: replicas 1, minutes of traffic in the last two weeks 5."
    )
    (row,) = found.taught.rows
    assert row.point.concurrency == 8 and row.point.tpot_ms == pytest.approx(12, rel=0.03)
    assert abs(row.tpot_after_ms - 12) < abs(row.tpot_before_ms - 12) / 3
    assert answer.before.curve == plain.curve and chosen.curve[0].tpot_ms > plain.curve[0].tpot_ms


def test_they_can_be_left_out_and_given_points_go_before_them() -> None:
    make_minutes(make_ran(), tpot_s=0.030)
    assert ask(own_measurements=False).calibration is None
    given = ask(points=[{"concurrency": 4, "tpot_ms": 9.0}]).calibration
    assert given is not None and given.source == "given" and given.taught.rows[0].point.tpot_ms == 9


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu": "A100-SXM4-80GB"}, {"model": "Llama-3.1-70B-Instruct", "cards_per_node": 8, "tensor_parallel": 8},
        {"vllm_version": "0.20"}, {"quantization": "fp8"}, {"kv_cache_dtype": "fp8"},
    ],
)  # fmt: skip
def test_other_models_cards_engines_and_precisions_are_not_taught(changes: dict[str, Any]) -> None:
    make_minutes(make_ran(), tpot_s=0.030)
    assert ask(**changes).calibration is None


def test_another_model_of_the_family_on_the_card_teaches_nothing() -> None:
    replica = make_ran()
    Deployment.objects.filter(pk=replica.deployment_id).update(
        variant=making.make_variant("llama-3.2-1b", "bf16", source="meta-llama/Llama-3.2-1B-Instruct")
    )
    make_minutes(replica, tpot_s=0.030)
    assert ask().calibration is None


def test_old_and_idle_minutes_teach_nothing() -> None:
    replica = make_ran()
    make_minutes(replica, tpot_s=0.030, running=0.2)
    assert ask().calibration is None
    assert ask(own_measurements=True).chosen is not None


def test_of_several_revisions_the_one_with_the_asked_split_teaches() -> None:
    make_minutes(make_ran("fast", model="fast-one"), tpot_s=0.010)
    wide = make_ran("wide", model="wide-one")
    wide.revision.spec = {**wide.revision.spec, "tensor_parallel": 2, "accelerators": 2}
    wide.revision.save()
    make_minutes(wide, tpot_s=0.020)
    two = ask(cards_per_node=2, tensor_parallel=2).calibration
    one = ask(cards_per_node=2, tensor_parallel=1).calibration
    assert two is not None and "by wide" in two.origin
    assert one is not None and "by fast" in one.origin


def test_a_first_token_that_waited_in_line_is_not_taken() -> None:
    make_minutes(make_ran(), tpot_s=0.030, running=63, ttft_s=9.0)
    found = ask().calibration
    assert found is not None and found.taught.rows[0].point.ttft_ms is None


def test_dragging_reads_the_minutes_of_traffic_once() -> None:
    make_minutes(make_ran(), tpot_s=0.012)
    with CaptureQueriesContext(connection) as first:
        ask(max_num_seqs=32)
    with CaptureQueriesContext(connection) as later:
        assert ask(max_num_seqs=64).calibration is not None
    assert any("telemetry_rollup_minute" in one["sql"] for one in first)
    assert not any("telemetry_rollup_minute" in one["sql"] for one in later)


def test_the_newest_minutes_count_and_those_of_last_week_where_there_are_no_others() -> None:
    replica = make_ran()
    make_minutes(replica, tpot_s=0.012, now=timezone.now() - timedelta(days=6))
    found = ask().calibration
    assert found is not None and found.taught.rows[0].point.tpot_ms == pytest.approx(12, rel=0.03)
    subject = f"replica:{replica.pk}"
    newest = telemetry.busy_minutes([subject], timezone.now(), days=14, requests=3, most=2)
    assert [span.start_s for _, span in newest] == sorted((span.start_s for _, span in newest), reverse=True)
    assert telemetry.busy_minutes([subject], timezone.now(), days=5, requests=3, most=9) == []
