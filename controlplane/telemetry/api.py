"""Samples in REST, for those who can't hold a websocket open."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import permissions, schema
from controlplane.api.serializers import Facts, StrictSerializer
from controlplane.api.views import ApiView
from controlplane.domain.samples import SUBJECT_KINDS
from controlplane.lib import sample_store, valkey
from controlplane.telemetry import selectors

MOST_SUBJECTS = 200


def _check_subject(subject: str) -> str:
    kind, _, name = subject.partition(":")
    if kind not in SUBJECT_KINDS or not name or len(subject) > 200:
        kinds = ", ".join(f"{kind}:…" for kind in SUBJECT_KINDS)
        raise serializers.ValidationError(f"{subject[:100]!r} is not a subject; there are {kinds}.")
    return subject


class NewestQuery(StrictSerializer):
    """Of what."""

    subjects = serializers.CharField(max_length=20_000, help_text="`deployment:<name>,replica:<id>,node:<name>`, …")

    def validate_subjects(self, value: str) -> list[str]:
        """Returns the subjects."""
        subjects = [_check_subject(part.strip()) for part in value.split(",") if part.strip()]
        if not 0 < len(subjects) <= MOST_SUBJECTS:
            raise serializers.ValidationError(f"Give 1 to {MOST_SUBJECTS} subjects.")
        return subjects


class HistoryQuery(StrictSerializer):
    """Of what, and how far back."""

    subject = serializers.CharField(max_length=200)
    window_s = serializers.IntegerField(default=sample_store.RING_S, min_value=1, max_value=selectors.LONGEST_S)

    def validate_subject(self, value: str) -> str:
        """Returns the subject."""
        return _check_subject(value)


class NewestSerializer(serializers.Serializer[Any]):
    """Subject -> its newest sample; null when nobody reports it."""

    results = Facts()


class HistorySerializer(serializers.Serializer[Any]):
    """Samples, oldest first: `t` in seconds since the epoch, and one value a field; null = missing."""

    subject = serializers.CharField()
    step_s = serializers.IntegerField(help_text="Seconds between two samples.")
    samples = serializers.ListField(child=Facts())


class NewestView(ApiView):
    """Newest samples."""

    roles = permissions.READ

    @schema.reads("get_newest_samples", NewestSerializer, NewestQuery, tagged=False)
    def get(self, request: Request) -> Response:
        """Reads the newest sample of each subject."""
        subjects = self.query(NewestQuery)["subjects"]
        with valkey.connect() as client:
            found = sample_store.newest(client, subjects)
        return Response({"results": {subject: found.get(subject) for subject in subjects}})


class HistoryView(ApiView):
    """Past samples."""

    roles = permissions.READ

    @schema.reads("get_sample_history", HistorySerializer, HistoryQuery, tagged=False)
    def get(self, request: Request) -> Response:
        """Reads a subject's samples: one a second up to 15 minutes back, one in 10 s up to an hour, else minutes."""
        query = self.query(HistoryQuery)
        samples = selectors.history(query["subject"], query["window_s"])
        step_s = selectors.step_s(query["window_s"])
        return Response({"subject": query["subject"], "step_s": step_s, "samples": samples})
