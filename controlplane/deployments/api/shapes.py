"""What deployments, revisions and replicas look like in REST. Secrets (`external_key`, `Replica.key`) never do."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from controlplane.api import permissions
from controlplane.api.serializers import Facts, Labels, PageQuery, Settings, StrictSerializer, Text, Whole, Words
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, DesiredState, Engine, Replica, ReplicaState, ReplicaTransition
from controlplane.deployments.wish import DeploymentWish
from controlplane.domain.access import LOGS
from controlplane.domain.desired import attention_copies

_EXTERNAL = "Only of an external endpoint."


class DeploymentSerializer(serializers.Serializer[Deployment]):
    """A deployment: first what it is asked to be (as in PUT), then what it is."""

    name = serializers.CharField(help_text="Also the model name at the gateway.")
    engine = serializers.ChoiceField(Engine.choices)
    variant = serializers.CharField(help_text="`model/variant`; empty for an external endpoint.")
    pool = serializers.CharField()
    desired_state = serializers.ChoiceField(DesiredState.choices)
    replicas = serializers.IntegerField(help_text="How many are wanted.")
    accelerators_per_replica = serializers.IntegerField()
    tensor_parallel = serializers.IntegerField()
    pipeline_parallel = serializers.IntegerField()
    settings = Settings(help_text="Settings of the engine by name; see /engines/.")
    external_url = serializers.CharField(help_text=_EXTERNAL)
    external_model = serializers.CharField(help_text=_EXTERNAL)
    node_labels = Labels(help_text="Only nodes that carry all of these are taken.")
    note = serializers.CharField(help_text="Why the newest revision was made.")
    has_external_key = serializers.BooleanField(help_text="The key itself is never shown.")
    status = serializers.ChoiceField(selectors.STATUSES)
    replicas_ready = serializers.IntegerField()
    replicas_live = serializers.IntegerField(help_text="Not ended: ready, on the way, draining or failed.")
    replicas_unknown = serializers.IntegerField(help_text="On a node that does not report.")
    replicas_failed = serializers.IntegerField()
    replicas_pending = serializers.IntegerField(help_text="Waiting for accelerators.")
    revision = serializers.IntegerField(allow_null=True)
    revision_hash = serializers.CharField()
    frozen = serializers.BooleanField(help_text="No automatic changes.")
    simulated = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()
    changed_by = serializers.CharField()
    deleted_at = serializers.DateTimeField(allow_null=True, help_text="Being drained, then removed.")
    version = serializers.IntegerField(help_text="The number in the ETag.")

    def to_representation(self, instance: Deployment) -> dict[str, Any]:
        """Returns the wish, read back from the row, beside the live numbers of `selectors.deployments()`."""
        wish = selectors.wish(instance)
        revision = instance.revision
        known = {
            **{name: getattr(wish, name) for name in DeploymentWish.__dataclass_fields__ if name != "external_key"},
            "settings": dict(wish.settings),
            "has_external_key": bool(instance.external_key),
            "status": selectors.status(instance),
            "revision": revision.number if revision else None,
            "revision_hash": revision.hash if revision else "",
            "simulated": instance.engine == Engine.SIMULATED,
        }
        fields: dict[str, Any] = dict(self.fields.items())
        return {name: known[name] if name in known else _plain(field, instance) for name, field in fields.items()}


def _plain(field: Any, instance: object) -> Any:
    value = field.get_attribute(instance)
    return None if value is None else field.to_representation(value)


class DeploymentBody(StrictSerializer):
    """The whole of what a deployment is asked to be; what is left out gets its default."""

    answer = DeploymentSerializer

    engine = Words(Engine.choices)
    variant = Text(default="", allow_blank=True, max_length=200)
    pool = Text(default="default", max_length=63)
    desired_state = Words(DesiredState.choices, default=DesiredState.RUNNING.value)
    replicas = Whole(default=1, min_value=0, max_value=100_000)
    accelerators_per_replica = Whole(
        required=False, min_value=1, max_value=100_000, help_text="By default what the degrees of parallelism take."
    )
    tensor_parallel = Whole(default=1, min_value=1, max_value=10_000)
    pipeline_parallel = Whole(default=1, min_value=1, max_value=10_000)
    settings = Settings(default=dict)
    external_url = Text(default="", allow_blank=True, max_length=500)
    external_model = Text(default="", allow_blank=True, max_length=200)
    external_key = Text(
        default=None, allow_null=True, allow_blank=True, max_length=300, write_only=True, help_text="null keeps it."
    )
    note = Text(default="", allow_blank=True, max_length=200)
    node_labels = Labels(
        default=None,
        allow_null=True,
        help_text="Only nodes that carry all of these are taken; null keeps what there is.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Fills in how many accelerators a replica takes."""
        ranks = attrs["tensor_parallel"] * attrs["pipeline_parallel"] * attention_copies(attrs["settings"])
        attrs.setdefault("accelerators_per_replica", ranks)
        return attrs


class DeploymentQuery(PageQuery):
    """Filters of deployments."""

    status = Words(selectors.STATUSES, required=False, source="state")
    engine = Words(Engine.choices, required=False)
    pool = serializers.CharField(required=False, max_length=63)
    search = serializers.CharField(required=False, max_length=100, help_text="Part of a deployment's or model's name.")


class ScaleBody(StrictSerializer):
    """How many replicas are wanted."""

    replicas = Whole(min_value=0, max_value=100_000)


class CloneBody(StrictSerializer):
    """The name of the copy."""

    new_name = Text(max_length=63)


class RevisionSerializer(serializers.Serializer[Any]):
    """Settings of a deployment that never change; an edit makes the next revision."""

    number = serializers.IntegerField()
    hash = serializers.CharField()
    spec = Facts(help_text="What the engine's command line depends on.")
    accelerators_per_replica = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField()
    note = serializers.CharField()


class AssignedSerializer(serializers.Serializer[Any]):
    """An accelerator that a replica was given."""

    uuid = serializers.CharField()
    kind = serializers.CharField()
    address = serializers.CharField()
    name = serializers.CharField(default="")
    memory_bytes = serializers.IntegerField(default=0)
    reserved_bytes = serializers.IntegerField(default=0, help_text="For this replica; 0 = all of it.")


class ReasonSerializer(serializers.Serializer[Replica]):
    """Why a replica is in its state."""

    code = serializers.CharField(source="reason_code")
    message = serializers.CharField(source="reason_message")
    hint = serializers.CharField(source="reason_hint")


class ReplicaSerializer(serializers.Serializer[Replica]):
    """One engine."""

    id = serializers.CharField()
    deployment = serializers.CharField(source="deployment.name")
    revision = serializers.IntegerField(source="revision.number")
    node = serializers.CharField(source="node.name", default=None, allow_null=True)
    node_lost = serializers.BooleanField(source="node.lost", default=False, help_text="The state is the last known.")
    accelerators = AssignedSerializer(source="assigned", many=True)
    state = serializers.ChoiceField(ReplicaState.choices)
    state_since = serializers.DateTimeField()
    reason = ReasonSerializer(source="*")
    goal = serializers.ChoiceField([("run", "run"), ("stop", "stop")])
    in_flight = serializers.IntegerField(allow_null=True, help_text="Requests running or waiting in the engine.")
    url = serializers.CharField(help_text="Where the gateway reaches it.")
    command = serializers.ListField(child=serializers.CharField(), help_text="Argument list, without secrets.")
    pid = serializers.IntegerField(allow_null=True)
    process_started_at = serializers.DateTimeField(allow_null=True)
    attempt = serializers.IntegerField(help_text="Launches so far.")
    retry_at = serializers.DateTimeField(allow_null=True)
    facts = Facts(help_text="What the engine said about itself; see `kv_cache_tokens` and others.")
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    cause = serializers.CharField()


class ReplicaQuery(PageQuery):
    """Filters of replicas."""

    deployment = serializers.CharField(required=False, max_length=63)
    node = serializers.CharField(required=False, max_length=63)
    state = Words(ReplicaState.choices, required=False)
    include_ended = serializers.BooleanField(default=False)


class DrainBody(StrictSerializer):
    """How long running requests may take."""

    drain_timeout_s = serializers.FloatField(default=60.0, min_value=0, max_value=24 * 3600)


class TransitionSerializer(serializers.Serializer[Any]):
    """One step in a replica's history."""

    at = serializers.DateTimeField()
    from_state = serializers.CharField()
    to_state = serializers.CharField()
    code = serializers.CharField()
    message = serializers.CharField()
    hint = serializers.CharField()
    log_tail = serializers.SerializerMethodField(help_text="The engine's last lines; null for who may not see logs.")
    cause = serializers.CharField()

    def get_log_tail(self, step: ReplicaTransition) -> list[str] | None:
        """Returns the lines, for those who may see logs."""
        return list(step.log_tail) if permissions.allows(self.context["request"], LOGS) else None


class ProgressSerializer(serializers.Serializer[Any]):
    """How far a deployment is on the way to what it was asked to be."""

    status = serializers.ChoiceField(selectors.STATUSES)
    done = serializers.BooleanField(help_text="It is as asked.")
    replicas_wanted = serializers.IntegerField(help_text="0 while it is stopped, drained or removed.")
    replicas_ready = serializers.IntegerField()
    replicas_live = serializers.IntegerField()
    in_flight = serializers.IntegerField(help_text="Requests in all its engines, as far as they say.")
    replicas = ReplicaSerializer(many=True)


class DeploymentProgressSerializer(serializers.Serializer[Any]):
    """What an action answers: the deployment now, and its progress."""

    deployment = DeploymentSerializer()
    progress = ProgressSerializer()
