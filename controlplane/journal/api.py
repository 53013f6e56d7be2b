"""Events and decisions in REST."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import permissions, schema
from controlplane.api.serializers import Facts, PageQuery, Words
from controlplane.api.views import ApiView, without_page
from controlplane.domain.access import ACCOUNT_EVENTS
from controlplane.journal import selectors
from controlplane.journal.models import Decision, Event


class EventSerializer(serializers.Serializer[Event]):
    """Something that a person, a token or the system did."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor_kind = serializers.ChoiceField(Event.ActorKind.choices)
    actor = serializers.CharField()
    verb = serializers.CharField()
    object_kind = serializers.CharField()
    object_id = serializers.CharField(help_text="The object's address.")
    object_name = serializers.CharField()
    deployment = serializers.CharField(help_text="Which one it concerns, such as the one of a replica; or empty.")
    message = serializers.CharField()
    numbers = Facts()
    level = serializers.ChoiceField([("info", "info"), ("warning", "warning"), ("error", "error")])
    cause = serializers.CharField()


class DecisionSerializer(serializers.Serializer[Decision]):
    """A change of state that the system made by itself, from which numbers and why."""

    id = serializers.IntegerField()
    first_at = serializers.DateTimeField()
    last_at = serializers.DateTimeField()
    count = serializers.IntegerField(help_text="How often the same was decided between the two times.")
    rule = serializers.CharField()
    object_kind = serializers.CharField()
    object_id = serializers.CharField()
    object_name = serializers.CharField()
    deployment = serializers.CharField(help_text="Which one it concerns, such as the one of a replica; or empty.")
    before = serializers.CharField()
    after = serializers.CharField()
    why = serializers.CharField()
    numbers = Facts()
    cause = serializers.CharField()


class EventQuery(PageQuery):
    """Filters of events."""

    object_kind = serializers.CharField(required=False, max_length=32)
    object_id = serializers.CharField(required=False, max_length=200)
    deployment = serializers.CharField(required=False, max_length=63, help_text="With those of its replicas.")
    verb = serializers.CharField(
        required=False, max_length=64, help_text="Ends with a dot: a family, as `deployment.`."
    )
    actor = serializers.CharField(required=False, max_length=150)
    level = Words(["info", "warning", "error"], required=False)
    since = serializers.DateTimeField(required=False)
    search = serializers.CharField(required=False, max_length=100)


class DecisionQuery(PageQuery):
    """Filters of decisions."""

    object_kind = serializers.CharField(required=False, max_length=32)
    object_id = serializers.CharField(required=False, max_length=200)
    deployment = serializers.CharField(required=False, max_length=63, help_text="With those of its replicas.")
    rule = serializers.CharField(required=False, max_length=64)
    since = serializers.DateTimeField(required=False)
    search = serializers.CharField(required=False, max_length=100)


class EventsView(ApiView):
    """All events."""

    roles = permissions.READ

    @schema.lists("list_events", EventSerializer, EventQuery)
    def get(self, request: Request) -> Response:
        """Lists what was done, newest first; what was done to users, tokens and keys only for administrators."""
        query = self.query(EventQuery)
        rows = selectors.events(**without_page(query), with_accounts=permissions.allows(request, ACCOUNT_EVENTS))
        return self.page(rows, EventSerializer, order=("-at", "-id"), query=query)


class DecisionsView(ApiView):
    """All decisions."""

    roles = permissions.READ

    @schema.lists("list_decisions", DecisionSerializer, DecisionQuery)
    def get(self, request: Request) -> Response:
        """Lists what the system decided by itself, newest first."""
        query = self.query(DecisionQuery)
        rows = selectors.decisions(**without_page(query))
        return self.page(rows, DecisionSerializer, order=("-last_at", "-id"), query=query)
