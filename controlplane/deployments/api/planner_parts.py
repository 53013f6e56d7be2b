"""Parts of a planner's answer in REST: the load as it was understood, cards that differ, what would be started."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from controlplane.deployments.planner.workload import Asked
from controlplane.domain.capacity import recorded


class PlannedPartSerializer(serializers.Serializer[Any]):
    """A piece of one card's memory."""

    name = serializers.CharField(
        help_text="foreign, weights, adapters, non_torch, activation, graphs, kv_cache, reserve, unused."
    )
    size_bytes = serializers.IntegerField()


class HeldRequestsSerializer(serializers.Serializer[Any]):
    """How many requests of a length the cache holds at once."""

    tokens = serializers.IntegerField(help_text="Prompt and answer.")
    requests = serializers.FloatField()


class PlannedCorrectionSerializer(serializers.Serializer[Any]):
    """What measured starts of the engine version, card and family of models taught the ledger."""

    observations = serializers.IntegerField(help_text="Measured starts; 0 = nothing was corrected.")
    weights_ratio = serializers.FloatField(help_text="Multiplies the weights.")
    other_bytes = serializers.IntegerField(help_text="Added to what is neither weights nor cache.")
    sentence = serializers.CharField()


class LengthsSerializer(serializers.Serializer[Any]):
    """Lengths of prompts or answers in tokens; percentiles where they are known."""

    mean = serializers.FloatField()
    p50 = serializers.FloatField(allow_null=True)
    p95 = serializers.FloatField(allow_null=True)
    p99 = serializers.FloatField(allow_null=True)


class WorkloadSerializer(serializers.Serializer[Any]):
    """The load as it was understood: what was derived from percentiles or a trace."""

    input = LengthsSerializer()
    input_source = serializers.CharField(help_text="usual, mean, percentiles, trace.")
    output = LengthsSerializer()
    output_source = serializers.CharField()
    peak_requests_per_s = serializers.FloatField(allow_null=True)
    mean_requests_per_s = serializers.FloatField(allow_null=True)
    rates_from_trace = serializers.BooleanField()
    decoding_context_tokens = serializers.FloatField(
        source="workload.mean_context_tokens", help_text="Mean context of a request that is met while it decodes."
    )
    trace = serializers.SerializerMethodField(help_text="What is kept of the trace; takes its place in a body.")
    sentences = serializers.ListField(source="seen", child=serializers.CharField())

    def get_trace(self, asked: Asked) -> dict[str, Any] | None:
        """Returns the trace in short."""
        return None if asked.trace is None else recorded.as_values(asked.trace)


class StageSerializer(serializers.Serializer[Any]):
    """Cards of one copy that hold the same: stages of its pipeline from `first` to `last`, each of `cards` cards."""

    first = serializers.IntegerField()
    last = serializers.IntegerField()
    first_layer = serializers.IntegerField()
    last_layer = serializers.IntegerField()
    layers = serializers.IntegerField(help_text="Of each stage.")
    cards = serializers.IntegerField()
    embedding = serializers.BooleanField()
    head = serializers.BooleanField()
    fullest = serializers.BooleanField()
    total_bytes = serializers.IntegerField(allow_null=True)
    parts = PlannedPartSerializer(many=True)


class StartSerializer(serializers.Serializer[Any]):
    """Whether Headworks can start this, and the body of the deployment that would."""

    can_start = serializers.BooleanField()
    why_not = serializers.CharField()
    note = serializers.CharField()
    body = serializers.DictField()


class ComparedSerializer(serializers.Serializer[Any]):
    """A measured point of one replica, beside what is predicted for it without and with the calibration."""

    concurrency = serializers.FloatField(source="point.concurrency")
    input_tokens = serializers.FloatField(source="point.input_tokens", allow_null=True, help_text="null = the load's.")
    output_tokens = serializers.FloatField(source="point.output_tokens", allow_null=True)
    tpot_ms = serializers.FloatField(source="point.tpot_ms")
    tpot_before_ms = serializers.FloatField()
    tpot_after_ms = serializers.FloatField()
    ttft_ms = serializers.FloatField(source="point.ttft_ms", allow_null=True)
    ttft_before_ms = serializers.FloatField()
    ttft_after_ms = serializers.FloatField()


class CalibrationSerializer(serializers.Serializer[Any]):
    """What measured points taught. Factors multiply times: by part of a step, and the first token's."""

    source = serializers.CharField(  # type: ignore[assignment]
        help_text="given: by `points`; own: by replicas of the same model, card and engine."
    )
    origin = serializers.CharField()
    sentence = serializers.CharField(source="taught.sentence")
    tpot_factor = serializers.FloatField(source="taught.tpot_factor")
    first_token_factor = serializers.FloatField(source="taught.first_token_factor")
    factors = serializers.DictField(source="taught.factors", child=serializers.FloatField())
    points = ComparedSerializer(source="taught.rows", many=True)
