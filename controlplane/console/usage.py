"""What was used lately: requests and tokens of a deployment, a tenant or a key, as the gateways counted them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from controlplane.traffic import selectors

DAY = timedelta(days=1)
_SPANS = (timedelta(hours=1), DAY)


@dataclass(frozen=True, slots=True)
class Used:
    """The sums of one span. Nothing used is 0 here, because usage is counted, not measured."""

    span: str
    requests: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


def of_deployment(name: str, now: datetime, *, since: datetime) -> list[Used]:
    """Returns what went through a deployment in the last hour and the last day; `since`: when it was made."""
    words = (_("Last hour"), _("Last 24 hours"))
    first = since.replace(second=0, microsecond=0)  # usage is kept by whole minutes
    return [
        _used(word, selectors.totals("deployment", [name], since=max(first, now - span)).get(name, {}))
        for word, span in zip(words, _SPANS, strict=True)
    ]


def of_tenants(names: Iterable[str], now: datetime) -> dict[str, Used]:
    """Returns tenant -> what it used in the last day; those that used nothing are absent."""
    return _of("tenant", names, now)


def of_keys(ids: Iterable[int], now: datetime) -> dict[int, Used]:
    """Returns key -> what it used in the last day; those that used nothing are absent."""
    return {int(key): used for key, used in _of("key_id", map(str, ids), now).items()}


def _of(group: str, names: Iterable[str], now: datetime) -> dict[str, Used]:
    found = selectors.totals(group, names, since=now - DAY)
    return {name: _used(_("Last 24 hours"), sums) for name, sums in found.items()}


def _used(span: str, sums: Mapping[str, int]) -> Used:
    return Used(span, **sums)
