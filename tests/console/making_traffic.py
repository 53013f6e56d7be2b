"""Rules of traffic, and what a gateway tells of itself under load, for the pages' tests."""

from __future__ import annotations

import time

from controlplane.accounts.models import ApiKey, Tenant
from controlplane.deployments.models import Deployment
from controlplane.domain.admission.tiers import BATCH
from controlplane.domain.degradation import Step
from controlplane.domain.gateway_state import (
    DeploymentState,
    GatewayState,
    LadderState,
    LeaseState,
    QuotaRefusedState,
    RefusedState,
    ReplicaState,
    TierLevel,
    TierState,
    WaitingState,
)
from controlplane.domain.quotas.measures import MEASURES
from controlplane.domain.quotas.windows import window_of
from controlplane.lib import gateway_state, keys, valkey, wire
from controlplane.traffic.models import Ladder, Price, Quota, Share, Slo, Tier
from controlplane.traffic.rule_selectors import TIER_FIELDS

STEPS = [
    {"kind": "cap_tokens", "tiers": [], "max_tokens": 512, "deployment": ""},
    {"kind": "divert", "tiers": ["standard"], "max_tokens": 512, "deployment": "smollm2"},
    {"kind": "shed", "tiers": ["batch"], "max_tokens": 512, "deployment": ""},
]
MIB = 2**20


def make_rules(deployment: str = "llama-70b", tenant: str = "chatbot") -> None:
    """One of each rule, on a deployment and tenants that there are."""
    row, owner = Deployment.objects.get(name=deployment), Tenant.objects.get(name=tenant)
    values = {name: getattr(BATCH, name) for name in TIER_FIELDS}
    Tier.objects.create(name="batch", deployment=row, **{**values, "longest_wait_s": 120.0})
    key = ApiKey.objects.filter(tenant__name="search-team").first()
    Quota.objects.create(
        tenant=owner, name="daily", limits={"tokens_per_day": 5_000_000, "money_per_month": 1_250_000_000}
    )
    if key is not None:
        limits = {"requests_per_minute": 600, "concurrent_requests": 8}
        Quota.objects.create(tenant=key.tenant, name="fair", key_id=key.pk, deployment=row, limits=limits)
        Share.objects.create(tenant=key.tenant, deployment=row, weight=1.0, guaranteed=0.6, most=1.0)
    Share.objects.create(tenant=owner, deployment=row, weight=2.0, guaranteed=0.5, most=0.8)
    Ladder.objects.create(deployment=row, steps=STEPS)
    Slo.objects.create(deployment=row, ttft_s=1.0, tpot_s=0.08)
    Price.objects.create(deployment=row, prompt_per_million=0.6, completion_per_million=2.4)


def make_told(*names: str) -> tuple[DeploymentState, ...]:
    """What a gateway in trouble tells: of the first deployment much, of the others nothing special."""
    tiers = (
        TierState("interactive", 3, 48_000, 256, 16 * MIB, 0.74, 1.4, 18_204, 11.3),
        TierState("standard", 41, 2_400_000, 1024, 64 * MIB, 12.4, 30.0, 9_120, 4.21),
        TierState("batch", 0, 0, 4096, 256 * MIB, None, 600.0, 310, 0.0),
    )
    busy = DeploymentState(
        names[0],
        tiers,
        waiting=(
            WaitingState("chatbot", "standard", 38, 61_200, 12.4),
            WaitingState("search", "standard", 3, 4_050, 6.1),
            WaitingState("search", "interactive", 3, 1_980, 0.74),
        ),
        refused=(
            RefusedState("standard", "too_slow", 941, 3.4),
            RefusedState("interactive", "expired", 12, 0.1),
            RefusedState("batch", "shed", 77, 0.6),
        ),
        replicas=(
            ReplicaState("7f3ak2m9q0xd", 44, 48, 171_000, 180_224, kv_usage=0.9137, preempted=17),
            ReplicaState("b81nz6t4w5re", 41, 44, 140_400, 180_224),
            ReplicaState("c2v8h0p7s3yj", 1, 16, 2_000, None, leaving=True),
        ),
        ladder=LadderState(
            1,
            1.08,
            tuple(wire.from_plain(one, Step) for one in STEPS),
            (TierLevel("interactive", 0, 0.37), TierLevel("standard", 1, 0.9), TierLevel("batch", 1, 1.08)),
        ),
    )
    quiet = tuple(TierState(one.name, 0, 0, one.queue_most, one.queue_most_bytes, None, 30.0, 5, 0.0) for one in tiers)
    others = [
        DeploymentState(name, quiet, replicas=(ReplicaState("r0", 0, 16, 0, 8192),), ladder=LadderState(0, 0.0))
        for name in names[1:]
    ]
    return (busy, *others)


def tell(*names: str, gateway: str = "a3f09c1d", silent_s: float = 0.0, kept_s: float = gateway_state.KEPT_S) -> None:
    """Writes a gateway's word, as if it had been said `silent_s` ago; it is kept for `kept_s`."""
    leases = (
        LeaseState("daily", "chatbot", "tokens_per_day", 5_000_000, 18_000, 61_200, 1_204_000),
        LeaseState("daily", "chatbot", "money_per_month", 1_250_000_000, 2_000_000, 400_000, 610_000_000),
        LeaseState("fair", "search", "requests_per_minute", 600, 12, 0, None, "llama-70b", "1"),
    )
    state = GatewayState(
        gateway, time.time() - 86_000, "0.1.0", "127.0.0.1:8080", 4711, make_told(*names), leases,
        quotas_refused=(QuotaRefusedState("search", "fair", "requests_per_minute", 204),),
    )  # fmt: skip
    client = valkey.connect()
    client.zadd(keys.gateways(), {gateway: time.time()})
    client.set(keys.gateway_state(gateway), wire.encode(state), px=int((kept_s - silent_s) * 1000))
    client.close()


def use_quotas() -> None:
    """Writes what gateways share of the tenants' quotas, as their leases would."""
    client = valkey.connect()
    now, _ = client.time()
    client.set(keys.quota_use_known(), "1")
    shared = {
        ("daily", "tokens_per_day"): {"out": 3_875_200, "h:a3f09c1d": 79_200},
        ("daily", "money_per_month"): {"out": 642_400_000, "h:a3f09c1d": 2_400_000},
        ("fair", "requests_per_minute"): {"out": 252, "h:a3f09c1d": 12, "at": now * 1000},
    }
    for (quota, measure), fields in shared.items():
        row = Quota.objects.get(name=quota)
        window, _ = window_of(MEASURES[measure].kind, now)
        client.hset(f"{keys.quota(f'{row.pk}:{measure}')}:{window}", mapping=fields)  # type: ignore[arg-type]
    client.close()
