"""Reading usage: the minute rows summed up by hour or day, and by who used what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from django.db.models import QuerySet, Sum
from django.db.models.functions import TruncDay, TruncHour
from django.utils import timezone

from controlplane.traffic.models import UsageMinute

Step = Literal["hour", "day"]
MEAN_OVER = timedelta(days=7)
GROUPS: tuple[str, ...] = ("tenant", "key_id", "deployment")
COUNTERS: tuple[str, ...] = ("requests", "errors", "prompt_tokens", "completion_tokens")


def usage(
    *,
    step: Step = "hour",
    groups: Sequence[str] = GROUPS,
    tenant: str | None = None,
    key_id: str | None = None,
    deployment: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> QuerySet[UsageMinute, dict[str, Any]]:
    """Returns dicts with `start` (UTC), the `groups`, and the sums of `COUNTERS`; `until` is not included."""
    rows = UsageMinute.objects.all()
    if tenant:
        rows = rows.filter(tenant=tenant)
    if key_id:
        rows = rows.filter(key_id=key_id)
    if deployment:
        rows = rows.filter(deployment=deployment)
    if since:
        rows = rows.filter(minute__gte=since)
    if until:
        rows = rows.filter(minute__lt=until)
    start = TruncHour("minute") if step == "hour" else TruncDay("minute")
    grouped = rows.annotate(start=start).order_by().values("start", *groups)
    sums: dict[str, Any] = {f"{name}_sum": Sum(name) for name in COUNTERS}
    return grouped.annotate(**sums)


def totals(group: str, names: Iterable[str], *, since: datetime) -> dict[str, Mapping[str, int]]:
    """Returns name -> the sums of `COUNTERS` since then, for those of the group (of `GROUPS`) that used anything."""
    rows = UsageMinute.objects.filter(**{f"{group}__in": list(names)}, minute__gte=since).order_by().values(group)
    sums: dict[str, Any] = {f"{name}_sum": Sum(name) for name in COUNTERS}
    return {row[group]: {name: row[f"{name}_sum"] for name in COUNTERS} for row in rows.annotate(**sums)}


def mean_request_tokens(deployment: str) -> int | None:
    """Returns prompt and answer of a deployment's mean request of the last week, None when there was none."""
    rows = UsageMinute.objects.filter(deployment=deployment, minute__gte=timezone.now() - MEAN_OVER)
    sums = rows.aggregate(asked=Sum("requests"), prompt=Sum("prompt_tokens"), answer=Sum("completion_tokens"))
    tokens = (sums["prompt"] or 0) + (sums["answer"] or 0)
    return max(1, round(tokens / sums["asked"])) if sums["asked"] and tokens else None
