"""The planner in REST: what fits, what it carries, how fast it is, and how many cards a load takes. Changes nothing."""

from __future__ import annotations

import math
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import parsers, schema
from controlplane.api.serializers import Facts, StrictSerializer, Text, Truth, Whole, Words
from controlplane.api.views import ApiView
from controlplane.deployments.api.planner_answers import PlannerAnswerSerializer, PlannerCapacitySerializer
from controlplane.deployments.planner import answers, inputs, starting
from controlplane.deployments.planner.fields import DRAFTS, MEDIA, MOST_FILE_BYTES, USUAL_DRAFT_TOKENS
from controlplane.domain.parallelism.question import PURPOSES

_PURPOSES = [(purpose, purpose) for purpose in PURPOSES]


class PlannerParser(parsers.StrictJSONParser):
    """Bodies with a config.json and an index in them."""

    limit_bytes = 2 * MOST_FILE_BYTES


class Real(serializers.FloatField):
    """A JSON number."""

    def to_internal_value(self, data: Any) -> float:
        """Returns the number."""
        if isinstance(data, bool) or not isinstance(data, int | float) or not math.isfinite(data):
            self.fail("invalid")
        return float(data)


@extend_schema_field({"type": "object", "additionalProperties": True})
class Files(serializers.Field[Any, Any, Any, Any]):
    """An index, or headers."""

    def to_internal_value(self, data: Any) -> Any:
        """Returns it as it is; the planner reads it."""
        return data

    def to_representation(self, value: Any) -> Any:
        """Returns it as it is."""
        return value


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "object"}]})
class Recording(serializers.Field[Any, Any, Any, Any]):
    """A trace as text, or what is kept of one."""

    def to_internal_value(self, data: Any) -> Any:
        """Returns it as it is; the planner reads it."""
        return data

    def to_representation(self, value: Any) -> Any:
        """Returns it as it is."""
        return value


def _real(text: str = "") -> Real:
    return Real(required=False, allow_null=True, help_text=text)


def _whole(text: str = "") -> Whole:
    return Whole(required=False, allow_null=True, help_text=text)


def _text(text: str = "") -> Text:
    return Text(required=False, allow_blank=True, max_length=200, help_text=text)


def _truth(text: str = "") -> Truth:
    return Truth(required=False, allow_null=True, help_text=text)


class MeasuredPointBody(StrictSerializer):
    """What requests took in one replica, with so many of them at once; means."""

    concurrency = Real()
    tpot_ms = Real()
    ttft_ms = _real()
    input_tokens = _real("Of these requests; left out: as the load's.")
    output_tokens = _real()


class PlannerBody(StrictSerializer):
    """A set-up and its load. One of `variant`, `model` and `config` is needed; what is left out is the engine's
    default, or is chosen."""

    variant = _text("`model/variant` of the catalog.")
    model = _text("The name of a well-known model.")
    config = Facts(required=False, allow_null=True, help_text="A model's config.json.")
    safetensors = Files(required=False, allow_null=True, help_text="model.safetensors.index.json, or headers.")
    gpu = _text("A card by any of its names.")
    pool = _text("Where the deployment that follows from it goes.")
    gpu_memory_total_gib = _real("What the driver reports of one card.")
    cards_per_node = _whole()
    nodes = _whole()
    link_group = _whole("Cards that NVLink joins; 1 = PCIe alone.")
    price_per_hour = _real("Of one card; null = that of the nodes with such cards, else a typical rent.")
    dtype = _text()
    quantization = _text()
    kv_cache_dtype = _text()
    vllm_version = _text()
    tensor_parallel = _whole("Left out: the best split is taken.")
    pipeline_parallel = _whole()
    max_model_len = _whole()
    max_num_seqs = _whole()
    max_num_batched_tokens = _whole()
    block_size = _whole("Tokens in one block of the KV cache.")
    gpu_memory_utilization = _real()
    kv_cache_memory_gib = _real("A hard cap of the KV cache of one card.")
    enforce_eager = _truth()
    foreign_gib = _real("Held by other processes on each card.")
    reserve_gib = _real("To be left free on each card.")
    cpu_offload_gib = _real("Of the weights of each card, what lies in the machine's memory instead.")
    speculative = Words(required=False, allow_blank=True, choices=[(one, one) for one in ("", *DRAFTS)])
    speculative_tokens = _whole(f"Proposed a step; {USUAL_DRAFT_TOKENS} when left out.")
    draft_model = _text("The files of a draft model, where the way to propose tokens needs one.")
    max_loras = _whole("Adapters in one batch.")
    max_lora_rank = _whole()
    media = Words(
        required=False, allow_blank=True, choices=[(one, one) for one in ("", *MEDIA)], help_text="Pictures and films."
    )
    attention_copies = _whole("Groups of ranks with attention of their own over one set of experts.")
    expert_parallel = _truth("Whole experts on ranks.")
    input_tokens = _real("Mean length of prompts; 1000 when left out, and percentiles and a trace too.")
    input_p50 = _real("Percentiles take the place of the mean; the 50th is needed for the others.")
    input_p95 = _real()
    input_p99 = _real()
    output_tokens = _real("Mean length of answers; 300 when left out, and percentiles and a trace too.")
    output_p50 = _real()
    output_p95 = _real()
    output_p99 = _real()
    trace = Recording(
        required=False, allow_null=True, help_text="CSV or JSON lines as text, or `workload.trace` of an answer."
    )
    purpose = Words(required=False, choices=_PURPOSES)
    ttft_ms = _real("Objective: mean time to first token.")
    tpot_ms = _real("Objective: mean time per output token.")
    peak_requests_per_s = _real("Takes the place of a trace's rates.")
    mean_requests_per_s = _real()
    requests_per_s_a_card = _real("Measured: what one card carries. Capacity is worked out by it, not predicted.")
    tokens_per_s_a_card = _real("The same in output tokens; one of the two.")
    safety_factor = _real("Of what a replica carries, what is counted on at the peak.")
    utilization_target = _real("Of what replicas carry, what the mean load may use.")
    hot_share = _real("Of the replicas, those that always run.")
    survive_node_loss = _truth()
    points = MeasuredPointBody(
        many=True, required=False, allow_null=True, help_text="Measured on the set-up: they calibrate its times."
    )
    own_measurements = _truth("Left out: what replicas of the same model, card and engine measured calibrates too.")


class _PlannerView(ApiView):
    """Asks the planner; a viewer may."""

    roles = {"POST": "viewer"}
    parser_classes: list[type[BaseParser]] = [PlannerParser]

    def asked(self) -> inputs.Inputs:
        """Returns the checked question."""
        return inputs.read(self.body(PlannerBody))


class EstimateView(_PlannerView):
    """One set-up."""

    @schema.acts("plan_estimate", PlannerAnswerSerializer, PlannerBody, conditional=False)
    def post(self, request: Request) -> Response:
        """Returns the ledger, the curve with its knee, what would be if, and ranked splits; changes nothing."""
        asked = self.asked()
        answer = answers.estimate(asked)
        deployment = starting.of(answer, asked)
        return Response(PlannerAnswerSerializer(answer, context={"start": deployment}).data)


class CapacityView(_PlannerView):
    """A load or some cards."""

    @schema.acts("plan_capacity", PlannerCapacitySerializer, PlannerBody, conditional=False)
    def post(self, request: Request) -> Response:
        """Returns the cards that a load takes, and the load that the cards carry; changes nothing."""
        return Response(PlannerCapacitySerializer(answers.capacity(self.asked())).data)
