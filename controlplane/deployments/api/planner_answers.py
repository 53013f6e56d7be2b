"""What the planner answers in REST. Bytes are of one card, times in ms as the latency model has them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane.deployments.api.planner_parts import (
    CalibrationSerializer,
    HeldRequestsSerializer,
    PlannedCorrectionSerializer,
    PlannedPartSerializer,
    StageSerializer,
    StartSerializer,
    WorkloadSerializer,
)
from controlplane.deployments.planner.answers import Answer, Capacity


class SplitSerializer(serializers.Serializer[Any]):
    """How one copy of a model is cut."""

    label = serializers.CharField(help_text="As practitioners write it: TP 4 x PP 2.")  # type: ignore[assignment]
    tensor_parallel = serializers.IntegerField(source="tensor")
    pipeline_parallel = serializers.IntegerField(source="pipeline")
    attention_copies = serializers.IntegerField(help_text="Above 1: data-parallel attention over one set of experts.")
    expert_parallel = serializers.BooleanField(source="experts")
    cards = serializers.IntegerField()


class VerdictSerializer(serializers.Serializer[Any]):
    """Whether it starts, with the sum that decides."""

    fits = serializers.BooleanField(allow_null=True)
    reason = serializers.CharField()
    sentence = serializers.CharField()


class PlannedAdviceSerializer(serializers.Serializer[Any]):
    """Something to consider; nothing is changed by it."""

    code = serializers.CharField()
    field = serializers.CharField()
    sentence = serializers.CharField()


class PlannedLedgerSerializer(serializers.Serializer[Any]):
    """The memory of the fullest card."""

    total_bytes = serializers.IntegerField(source="budget.total_bytes", allow_null=True)
    requested_bytes = serializers.IntegerField(source="budget.requested_bytes", allow_null=True)
    parts = PlannedPartSerializer(
        source="budget.parts", many=True, help_text="A stack; adds up to the card where it fits."
    )
    kv_bytes_per_token = serializers.FloatField()
    kv_cache_tokens = serializers.IntegerField(source="tokens", allow_null=True)
    gpu_blocks = serializers.IntegerField(source="blocks", allow_null=True)
    needed_bytes = serializers.IntegerField(help_text="KV of one request of max_model_len.")
    longest_tokens = serializers.IntegerField(allow_null=True, help_text="The longest length that fits.")
    max_model_len = serializers.IntegerField(source="setup.max_model_len")
    max_num_seqs = serializers.IntegerField(source="setup.max_num_seqs")
    gpu_memory_utilization = serializers.FloatField(source="setup.utilization")
    max_concurrency = serializers.SerializerMethodField(help_text="Requests of max_model_len at once.")
    concurrency_ceiling = serializers.SerializerMethodField(
        help_text="Requests of the mean length that make sense at once: min(max_num_seqs, KV tokens / mean tokens)."
    )
    concurrency_by_length = serializers.SerializerMethodField()
    correction = PlannedCorrectionSerializer()
    verdict = VerdictSerializer()
    advice = PlannedAdviceSerializer(many=True)

    @extend_schema_field(HeldRequestsSerializer(many=True))
    def get_concurrency_by_length(self, ledger: Any) -> list[dict[str, float]]:
        """Returns requests at once at typical lengths up to max_model_len; none where it does not fit."""
        held = ledger.concurrency_by_length if ledger.verdict.fits else ()
        return [{"tokens": tokens, "requests": requests} for tokens, requests in held]

    def get_max_concurrency(self, ledger: Any) -> float | None:
        """Returns requests of the full length."""
        found: float | None = ledger.concurrency(ledger.setup.max_model_len)
        return found

    def get_concurrency_ceiling(self, ledger: Any) -> int | None:
        """Returns what the gateway would admit until a knee was measured."""
        mean = ledger.setup.wishes.mean_request_tokens
        found: int | None = ledger.concurrency_ceiling(mean) if mean else None
        return found


class PointSerializer(serializers.Serializer[Any]):
    """All copies together at one concurrency."""

    concurrency = serializers.FloatField()
    running = serializers.FloatField()
    ttft_ms = serializers.FloatField()
    tpot_ms = serializers.FloatField()
    output_tok_s = serializers.FloatField()
    requests_s = serializers.FloatField()
    latency_p95_s = serializers.FloatField()
    limit = serializers.CharField()
    preemptions = serializers.FloatField()


class KneeSerializer(serializers.Serializer[Any]):
    """The largest concurrency of one copy worth having, and why not more."""

    concurrency = serializers.FloatField()
    reason = serializers.CharField()
    sentence = serializers.CharField()


class SplitCandidateSerializer(serializers.Serializer[Any]):
    """One split that runs. Costs are a million output tokens, in the price's currency."""

    split = SplitSerializer()
    copies = serializers.IntegerField()
    cards = serializers.IntegerField()
    idle_cards = serializers.IntegerField(source="layout.idle_cards")
    kv_cache_tokens = serializers.IntegerField(source="ledger.tokens", allow_null=True)
    meets_objective = serializers.BooleanField()
    saturated = serializers.BooleanField()
    at_load = PointSerializer()
    carried = PointSerializer(allow_null=True, help_text="The largest load within the objective.")
    communication_share = serializers.FloatField()
    cost_at_load = serializers.FloatField(allow_null=True)
    cost_when_full = serializers.FloatField(allow_null=True)
    ledger = PlannedLedgerSerializer()
    reasons = serializers.ListField(child=serializers.CharField())


class SplitRejectionSerializer(serializers.Serializer[Any]):
    """One split that was left out, and why."""

    split = SplitSerializer()
    code = serializers.CharField()
    reason = serializers.CharField()


class PrecisionSerializer(serializers.Serializer[Any]):
    """One pair of precisions for weights and KV cache."""

    weights = serializers.CharField()
    kv = serializers.CharField()
    weights_bytes = serializers.IntegerField(allow_null=True)
    kv_cache_tokens = serializers.IntegerField(source="kv_tokens", allow_null=True)
    max_concurrency = serializers.FloatField(source="concurrency", allow_null=True)
    tpot_s = serializers.FloatField(allow_null=True)
    fits = serializers.BooleanField(allow_null=True)
    support = serializers.CharField(source="support.level", default=None, allow_null=True)
    support_why = serializers.CharField(source="support.why", default=None, allow_null=True)
    caution = serializers.CharField()
    refusal = serializers.CharField()


class CornerSerializer(serializers.Serializer[Any]):
    """One corner of max_num_seqs, max_model_len and utilization."""

    max_num_seqs = serializers.IntegerField()
    max_model_len = serializers.IntegerField()
    gpu_memory_utilization = serializers.FloatField(source="utilization")
    fits = serializers.BooleanField(allow_null=True)
    kv_cache_tokens = serializers.IntegerField(source="kv_tokens", allow_null=True)
    max_concurrency = serializers.FloatField(source="concurrency_at_length", allow_null=True)
    concurrency_ceiling = serializers.IntegerField(allow_null=True)
    why = serializers.CharField()


class PlannerAnswerSerializer(serializers.Serializer[Answer]):
    """One set-up: whether it fits, what it carries, how fast it is, and what else could be done."""

    model = serializers.CharField(source="question.model.name")
    parameters = serializers.IntegerField(source="question.model.parameters")
    split = SplitSerializer()
    split_was_given = serializers.BooleanField()
    copies = serializers.IntegerField()
    workload = WorkloadSerializer(source="asked")
    length_warning = serializers.CharField()
    ledger = PlannedLedgerSerializer()
    stages = StageSerializer(many=True)
    deployment = serializers.SerializerMethodField()
    runs = serializers.SerializerMethodField()
    why_not = serializers.CharField()
    calibration = CalibrationSerializer(allow_null=True)
    before_calibration = PointSerializer(
        source="before.at_load", default=None, allow_null=True, help_text="At the load, as predicted before."
    )
    curve = PointSerializer(source="chosen.curve", many=True, default=list)
    knee = KneeSerializer(source="chosen.knee", default=None, allow_null=True)
    precisions = PrecisionSerializer(many=True)
    triangle = serializers.SerializerMethodField()
    candidates = SplitCandidateSerializer(source="ranking.candidates", many=True)
    rejected = SplitRejectionSerializer(source="ranking.rejected", many=True)
    sentence = serializers.CharField(source="ranking.sentence")
    assumptions = serializers.ListField(child=serializers.CharField())

    @extend_schema_field(StartSerializer)
    def get_deployment(self, answer: Answer) -> dict[str, Any]:
        """Returns what would be started."""
        return dict(StartSerializer(self.context["start"]).data)

    def get_runs(self, answer: Answer) -> bool:
        """Returns whether the asked split runs."""
        return answer.chosen is not None

    def get_triangle(self, answer: Answer) -> list[dict[str, Any]]:
        """Returns both faces of the triangle as one list."""
        rows = [row for face in (answer.lengths, answer.seats) for line in face for row in line]
        return list(CornerSerializer(list(dict.fromkeys(rows)), many=True).data)


class StepSerializer(serializers.Serializer[Any]):
    """One sum of a plan, as it is made."""

    what = serializers.CharField()
    working = serializers.CharField()
    value = serializers.FloatField()
    unit = serializers.CharField()


class PlanSerializer(serializers.Serializer[Any]):
    """What a demand takes with one split."""

    split = SplitSerializer()
    replicas = serializers.IntegerField(source="plan.replicas")
    cards = serializers.IntegerField(source="plan.cards")
    hot_cards = serializers.IntegerField(source="plan.hot_cards")
    cold_cards = serializers.IntegerField(source="plan.cold_cards")
    spare_replicas = serializers.IntegerField(source="plan.spare_replicas")
    nodes = serializers.IntegerField(source="plan.nodes")
    cost_per_month = serializers.FloatField(source="plan.cost_per_month", allow_null=True)
    hot_cost_per_month = serializers.FloatField(source="plan.hot_cost_per_month", allow_null=True)
    cost_per_million_tokens = serializers.FloatField(source="plan.cost_per_million_tokens", allow_null=True)
    steps = StepSerializer(source="plan.steps", many=True)
    reasons = serializers.ListField(source="plan.reasons", child=serializers.CharField())
    advice = serializers.ListField(source="plan.advice", child=serializers.CharField())


class NeededSerializer(serializers.Serializer[Any]):
    """What the demand takes; the plan with the fewest cards first."""

    sentence = serializers.CharField()
    plans = PlanSerializer(source="options", many=True)
    rejected = SplitRejectionSerializer(many=True)
    assumptions = serializers.ListField(child=serializers.CharField())


class CarriedSerializer(serializers.Serializer[Any]):
    """What the cards carry within the objective."""

    sentence = serializers.CharField()
    split = SplitSerializer(allow_null=True)
    replicas = serializers.IntegerField(source="carried.replicas", default=0)
    idle_cards = serializers.IntegerField(source="carried.idle_cards", default=0)
    peak_requests_per_s = serializers.FloatField(source="carried.peak_requests_per_s", default=0.0)
    mean_requests_per_s = serializers.FloatField(source="carried.mean_requests_per_s", default=0.0)
    peak_after_node_loss = serializers.FloatField(source="carried.peak_after_node_loss", default=0.0)
    cost_per_month = serializers.FloatField(source="carried.cost_per_month", default=None, allow_null=True)
    steps = StepSerializer(source="carried.steps", many=True, default=list)
    reasons = serializers.ListField(source="carried.reasons", child=serializers.CharField(), default=list)


class PlannerCapacitySerializer(serializers.Serializer[Capacity]):
    """Both ways. `needed` is null without `peak_requests_per_s`."""

    workload = WorkloadSerializer(source="asked")
    needed = NeededSerializer(allow_null=True)
    carried = CarriedSerializer()
    calibration = CalibrationSerializer(allow_null=True)
