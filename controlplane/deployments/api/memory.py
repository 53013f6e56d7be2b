"""Memory ledgers and passed-over candidates in REST."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import permissions, schema
from controlplane.api.serializers import Facts, PageQuery, StrictSerializer
from controlplane.api.views import ApiView, without_page
from controlplane.deployments import selectors
from controlplane.deployments.models import LedgerRow
from controlplane.domain.errors import RefusedError
from controlplane.domain.rejections import CardsAt, Rejected


class AdviceSerializer(serializers.Serializer[object]):
    """One piece of advice. Nothing is changed by it."""

    code = serializers.CharField()
    field = serializers.CharField(help_text="The setting that it is about.")
    sentence = serializers.CharField()


class PredictedSerializer(serializers.Serializer[object]):
    """What is known before a start. Bytes are of one accelerator."""

    accelerator = serializers.CharField()
    why_unknown = serializers.CharField(help_text="Not empty: nothing could be predicted, because of this.")
    claim_bytes = serializers.IntegerField(allow_null=True, help_text="Reserved on each accelerator; null = all of it.")
    predicted = Facts(help_text="Weights, KV cache in bytes and tokens, and the other parts.")
    correction = Facts(help_text="What was learned from measured starts, and from how many.")
    concurrency_ceiling = serializers.IntegerField(
        allow_null=True, help_text="The smaller of the seats and of the mean requests that the KV cache holds."
    )
    mean_request_tokens = serializers.IntegerField(allow_null=True, help_text="That the ceiling was worked out with.")
    advice = AdviceSerializer(many=True)
    assumptions = serializers.ListField(child=serializers.CharField())


class PreviewedLedgerSerializer(PredictedSerializer):
    """The ledger of a replica that does not exist yet, on one make of accelerator."""

    kind = serializers.CharField()
    memory_total_bytes = serializers.IntegerField(allow_null=True)


class LedgerSerializer(PredictedSerializer):
    """The ledger of one start: predicted, and measured once the engine was ready."""

    replica = serializers.CharField()
    deployment = serializers.CharField()
    engine_version = serializers.CharField(
        help_text="The first two numbers: with accelerator and family, what is learned for."
    )
    family = serializers.CharField(help_text="Of the model.")
    measured = Facts(
        help_text="What the engine said; empty before it was ready. `sources` says of each value whether it is from "
        "the log, the metrics or both, `contradictions` where these two differ."
    )
    error = Facts(help_text="Measured / predicted - 1, of each sum.")
    made_at = serializers.DateTimeField()
    measured_at = serializers.DateTimeField(allow_null=True)


class LedgerQuery(PageQuery):
    """Filters of ledgers."""

    deployment = serializers.CharField(required=False, max_length=63)
    accelerator = serializers.CharField(required=False, max_length=100)
    family = serializers.CharField(required=False, max_length=64)
    measured = serializers.BooleanField(required=False, help_text="Only starts that were measured, or were not.")


class CandidateCardsSerializer(serializers.Serializer[CardsAt]):
    """The same cards of some nodes."""

    indexes = serializers.ListField(child=serializers.IntegerField(), help_text="Of the cards, in each of the nodes.")
    nodes = serializers.ListField(child=serializers.CharField())


class CandidatesOfReasonSerializer(serializers.Serializer[Rejected]):
    """All nodes, or all single cards, that a placement passed over for one reason."""

    reason = serializers.CharField()
    count = serializers.IntegerField(help_text="How many candidates in all; cards count one by one.")
    nodes = serializers.ListField(child=serializers.CharField(), help_text="Whole nodes.")
    cards = CandidateCardsSerializer(many=True, help_text="Single cards.")
    more_nodes = serializers.IntegerField(help_text="Not named; only of placements by versions that named 64 at most.")
    more_cards = serializers.IntegerField(help_text="The same of cards.")


class CandidatesSerializer(serializers.Serializer[object]):
    """Everything that the last placement of a replica passed over, by reason."""

    replica = serializers.CharField()
    rejected = CandidatesOfReasonSerializer(many=True)


class LedgersView(ApiView):
    """All ledgers."""

    roles = permissions.READ

    @schema.lists("list_ledgers", LedgerSerializer, LedgerQuery)
    def get(self, request: Request) -> Response:
        """Lists what was predicted and measured at each start, the newest first."""
        query = self.query(LedgerQuery)
        rows = selectors.ledger_rows(**without_page(query))
        return self.page(rows, LedgerSerializer, order=("-made_at", "-id"), query=query)


class ReplicaLedgerView(ApiView):
    """The ledger of one replica."""

    roles = permissions.READ

    @schema.reads("get_replica_ledger", LedgerSerializer, tagged=False)
    def get(self, request: Request, id: str) -> Response:
        """Reads what was predicted of a replica's memory beside what its engine measured."""
        self.query(StrictSerializer)
        row: LedgerRow | None = selectors.ledger_row(selectors.replica(id))
        if row is None:
            raise RefusedError(
                "no_such_ledger", f"Replica {id} was never placed, so it has no ledger.", kind="not_found"
            )
        return Response(LedgerSerializer(row).data)


class CandidatesView(ApiView):
    """What was passed over."""

    roles = permissions.READ

    @schema.reads("get_replica_candidates", CandidatesSerializer, tagged=False)
    def get(self, request: Request, id: str) -> Response:
        """Reads the nodes and cards that a replica's last placement passed over, and why."""
        self.query(StrictSerializer)
        replica = selectors.replica(id)
        rejected = selectors.passed_over([replica.pk]).get(replica.pk, ())
        return Response(CandidatesSerializer({"replica": id, "rejected": rejected}).data)
