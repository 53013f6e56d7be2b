"""What was used of a day and a month, told to a Valkey that has lost it.

What gateways share there is the newest, so it counts as long as it is known. Where it is lost, the minute rows know
what was used up to a few seconds ago, and they are the floor from then on: a limit is never taken to be less used than
the rows say, plus what gateways hold of it.

Guarantees
    Again is harmless: nothing is added, a floor is set. It goes on for `FOR_S` after a loss, while the last usage of
    before it is still on its way to the rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import redis
from django.db.models import Sum

from controlplane.domain.quotas.measures import MEASURES, MONEY, Measure
from controlplane.domain.quotas.quota import Price as RoutedPrice
from controlplane.domain.quotas.windows import start_of, window_of
from controlplane.lib import keys
from controlplane.traffic import rule_selectors
from controlplane.traffic.models import Quota, UsageMinute

logger = logging.getLogger(__name__)

FOR_S = 120.0
MARK_S = 7 * 86_400  # nothing is left of an installation that is no more
KEEP_S = 86_400  # as long as the gateways' script keeps a window after its end

# KEYS[1] the limit in its window; ARGV: what the rows say was used, when the key may go
SCRIPT = """
local floor = tonumber(ARGV[1])
local fields = redis.call('HGETALL', KEYS[1])
local out = 0
for i = 1, #fields, 2 do
  if fields[i] == 'out' then out = tonumber(fields[i + 1]) end
  if string.sub(fields[i], 1, 2) == 'h:' then floor = floor + tonumber(fields[i + 1]) end
end
if out >= floor then return 0 end
redis.call('HSET', KEYS[1], 'out', string.format('%.6f', floor))
redis.call('EXPIREAT', KEYS[1], ARGV[2])
return 1
"""


def restore(client: redis.Redis) -> int:
    """Looks whether Valkey has lost what was used, and tells it; returns how many limits were raised."""
    now = time.time()
    since: Any = client.getex(keys.quota_use_known(), ex=MARK_S)
    if since is None:
        client.set(keys.quota_use_known(), repr(now), nx=True, ex=MARK_S)
        logger.info("Valkey does not know what was used of days and months; it is told from the rows")
    elif not abs(now - float(since)) < FOR_S:
        return 0
    raised = 0
    for quota in rule_selectors.quotas():
        for name in quota.limits:
            measure = MEASURES.get(name)
            if measure is not None and measure.kind in ("day", "month"):
                raised += _restore(client, quota, measure)
    return raised


def _restore(client: redis.Redis, quota: Quota, measure: Measure) -> int:
    seconds, _ = client.time()  # windows are by Valkey's clock
    window, ends_at = window_of(measure.kind, float(seconds))
    used = _used(quota, measure, datetime.fromtimestamp(start_of(measure.kind, window), UTC))
    if not used:
        return 0
    key = f"{keys.quota(f'{quota.pk}:{measure.name}')}:{window}"
    return int(client.eval(SCRIPT, 1, key, used, int(ends_at) + KEEP_S))


def _used(quota: Quota, measure: Measure, since: datetime) -> int:
    """Returns what a quota's requests have used since then, by the rows: tokens, or millionths of money."""
    rows = UsageMinute.objects.filter(tenant=quota.tenant.name, minute__gte=since)
    if quota.key_id:
        rows = rows.filter(key_id=str(quota.key_id))
    if quota.deployment:
        rows = rows.filter(deployment=quota.deployment.name)
    sums: Iterable[dict[str, Any]] = (
        rows.order_by().values("deployment").annotate(prompt=Sum("prompt_tokens"), output=Sum("completion_tokens"))
    )
    if measure.unit != MONEY:
        return sum(row["prompt"] + row["output"] for row in sums)
    prices = {
        row.deployment.name: RoutedPrice(row.prompt_per_million, row.completion_per_million)
        for row in rule_selectors.prices()
    }
    free = RoutedPrice()
    return sum(prices.get(row["deployment"], free).cost(row["prompt"], row["output"]) for row in sums)
