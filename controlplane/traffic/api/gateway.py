"""What the gateways do now, in REST."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import permissions, schema
from controlplane.api.serializers import StrictSerializer
from controlplane.api.views import ApiView
from controlplane.domain import gateway_state, gateway_sums
from controlplane.domain.gateway_state import DeploymentState, GatewayState, Heard
from controlplane.domain.quotas.measures import MEASURES, MICRO, MONEY
from controlplane.traffic import live
from controlplane.traffic.api.ladders import LadderStepSerializer


class LeaseSerializer(serializers.Serializer[gateway_state.LeaseState]):
    """What a gateway holds of one limit of a quota; money in the currency of the prices."""

    tenant = serializers.CharField()
    quota = serializers.CharField()
    measure = serializers.CharField()
    key_id = serializers.CharField(allow_blank=True, help_text="Empty = all keys together.")
    deployment = serializers.CharField(allow_blank=True, help_text="Empty = all deployments together.")
    limit = serializers.FloatField()
    stock = serializers.FloatField(help_text="It may use this without asking.")
    reserved = serializers.FloatField(help_text="Of running requests.")
    left = serializers.FloatField(allow_null=True, help_text="What nobody holds, as it heard last; null = not heard.")

    def to_representation(self, instance: gateway_state.LeaseState) -> dict[str, Any]:
        """Returns the lease with amounts as REST writes them in quotas."""
        shown = super().to_representation(instance)
        measure = MEASURES.get(instance.measure)
        if measure is not None and measure.unit == MONEY:
            amounts = ("limit", "stock", "reserved", "left")
            return {**shown, **{name: shown[name] / MICRO for name in amounts if shown[name] is not None}}
        return shown


class QuotaRefusedSerializer(serializers.Serializer[gateway_state.QuotaRefusedState]):
    """Requests that a limit of a quota had no room for, since the gateway started."""

    tenant = serializers.CharField()
    quota = serializers.CharField()
    measure = serializers.CharField()
    requests = serializers.IntegerField()
    per_s = serializers.FloatField(allow_null=True, help_text="Over the last ten seconds.")


class GatewayProcessSerializer(serializers.Serializer[Any]):
    """One gateway process. `owns` null = each process decides for all deployments."""

    id = serializers.CharField()
    heard = serializers.BooleanField(help_text="false = it has been silent for some seconds.")
    age_s = serializers.FloatField(help_text="Since its last word.")
    started_at = serializers.FloatField(help_text="Seconds since 1970.")
    version = serializers.CharField(allow_blank=True)
    address = serializers.CharField(allow_blank=True)
    pid = serializers.IntegerField(allow_null=True)
    owns = serializers.ListField(child=serializers.CharField(), allow_null=True)
    cut_off_s = serializers.FloatField(
        allow_null=True, help_text="For how long Valkey has not answered it about quotas; null = it answers."
    )
    leases = LeaseSerializer(many=True)
    leases_left_out = serializers.IntegerField()
    quotas_refused = QuotaRefusedSerializer(many=True)


class DeploymentSumsSerializer(serializers.Serializer[DeploymentState]):
    """Admission of one deployment in a few numbers, over all gateways. null = not known, or nobody waits."""

    name = serializers.CharField()
    waiting = serializers.IntegerField(source="requests_waiting")
    wait_ratio = serializers.FloatField(allow_null=True, help_text="The longest wait over its limit.")
    running = serializers.IntegerField()
    seats = serializers.IntegerField()
    reserved_tokens = serializers.IntegerField()
    capacity_tokens = serializers.IntegerField(allow_null=True)
    admitted_per_s = serializers.FloatField(allow_null=True)
    refused_per_s = serializers.FloatField(allow_null=True)
    saturation = serializers.FloatField(source="ladder.saturation", default=None, allow_null=True)
    level = serializers.IntegerField(source="ladder.level", default=None, allow_null=True)


class GatewaySerializer(serializers.Serializer[Any]):
    """All gateways, and what they do together."""

    gateways = GatewayProcessSerializer(many=True)
    deployments = DeploymentSumsSerializer(many=True)


class TierStateSerializer(serializers.Serializer[gateway_state.TierState]):
    """One tier's queue."""

    name = serializers.CharField()
    waiting = serializers.IntegerField()
    waiting_bytes = serializers.IntegerField()
    queue_most = serializers.IntegerField(allow_null=True)
    queue_most_bytes = serializers.IntegerField(allow_null=True)
    oldest_wait_s = serializers.FloatField(allow_null=True, help_text="null = nobody waits.")
    wait_limit_s = serializers.FloatField(allow_null=True)
    admitted = serializers.IntegerField(help_text="Since the gateway started.")
    admitted_per_s = serializers.FloatField(allow_null=True, help_text="Over the last ten seconds.")


class WaitingSerializer(serializers.Serializer[gateway_state.WaitingState]):
    """The waiting requests of a tenant in a tier."""

    tenant = serializers.CharField()
    tier = serializers.CharField()
    requests = serializers.IntegerField()
    tokens = serializers.IntegerField(help_text="Estimated: prompts and allowed output.")
    oldest_wait_s = serializers.FloatField()


class RefusedSerializer(serializers.Serializer[gateway_state.RefusedState]):
    """Requests that were refused for one reason."""

    tier = serializers.CharField()
    why = serializers.CharField()
    requests = serializers.IntegerField(help_text="Since the gateway started.")
    per_s = serializers.FloatField(allow_null=True, help_text="Over the last ten seconds.")


class ReplicaStateSerializer(serializers.Serializer[gateway_state.ReplicaState]):
    """A replica as admission sees it."""

    id = serializers.CharField()
    running = serializers.IntegerField()
    seats = serializers.IntegerField()
    reserved_tokens = serializers.IntegerField()
    capacity_tokens = serializers.IntegerField(allow_null=True, help_text="null = its engine has not told.")
    leaving = serializers.BooleanField()
    resting = serializers.BooleanField(help_text="Nothing new goes there for some seconds.")
    kv_usage = serializers.FloatField(
        allow_null=True, help_text="Part of its KV cache that its engine says is in use; null while nothing runs there."
    )
    preempted = serializers.IntegerField(
        allow_null=True,
        help_text="Requests that its engine threw out of a full cache since the gateway looks; null = it does not say.",
    )


class TierLevelSerializer(serializers.Serializer[gateway_state.TierLevel]):
    """Where one tier stands on the ladder; steps for other tiers do nothing to it."""

    tier = serializers.CharField()
    level = serializers.IntegerField(help_text="So many of the steps are climbed.")
    saturation = serializers.FloatField(help_text="1 = a limit is reached, of this tier or of one above it.")


class LadderStateSerializer(serializers.Serializer[gateway_state.LadderState]):
    """Where it stands on its ladder."""

    level = serializers.IntegerField(help_text="The highest of its tiers.")
    saturation = serializers.FloatField(allow_null=True, help_text="1 = one of its limits is reached.")
    steps = LadderStepSerializer(many=True)
    tiers = TierLevelSerializer(many=True)


class DeploymentStateSerializer(DeploymentSumsSerializer):
    """Admission of one deployment, over all gateways."""

    tiers = TierStateSerializer(many=True)
    who_waits = WaitingSerializer(many=True, source="waiting", help_text="The longest wait first, at most 50.")
    refused = RefusedSerializer(many=True)
    replicas = ReplicaStateSerializer(many=True)
    ladder = LadderStateSerializer(allow_null=True)

    waiting = serializers.IntegerField(source="requests_waiting")


class GatewayView(ApiView):
    """All gateways."""

    roles = permissions.READ

    @schema.reads("get_gateway", GatewaySerializer, tagged=False)
    def get(self, request: Request) -> Response:
        """Reads which gateways run, what each holds of quotas, and what they do for each deployment."""
        self.query(StrictSerializer)
        heard = live.gateways()
        told = {"gateways": map(process, heard), "deployments": gateway_sums.deployments(heard).values()}
        return Response(GatewaySerializer(told).data)


class GatewayDeploymentView(ApiView):
    """Admission of one deployment."""

    roles = permissions.READ

    @schema.reads("get_gateway_deployment", DeploymentStateSerializer, tagged=False)
    def get(self, request: Request, deployment: str) -> Response:
        """Reads queues, who waits, what was let in and refused, seats and KV tokens of each replica."""
        self.query(StrictSerializer)
        return Response(DeploymentStateSerializer(live.deployment(live.gateways(), deployment)).data)


def process(heard: Heard) -> dict[str, Any]:
    """Returns the values of GatewayProcessSerializer."""
    state = heard.state
    names = [name for name in GatewayState.__dataclass_fields__ if name != "deployments"]
    return {**{name: getattr(state, name) for name in names}, "heard": heard.is_fresh, "age_s": heard.age_s}
