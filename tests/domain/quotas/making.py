"""Quotas, books and a shared pool for the tests."""

from __future__ import annotations

from controlplane.domain.quotas.answers import NeedsSlice, QuotaAnswer
from controlplane.domain.quotas.book import SliceBook
from controlplane.domain.quotas.pool import Pool
from controlplane.domain.quotas.quota import Quota, Who

SHOP = Who("shop", "1", "chat")
NOW = 1_796_000_000.0  # 2026-11-30 00:53:20 UTC


def make_quota(name: str = "q", tenant: str = "shop", key_id: str = "", deployment: str = "", **limits: int) -> Quota:
    return Quota(f"{tenant}/{name}", name, tenant, key_id, deployment, limits)


def sync(book: SliceBook, pool: Pool, now: float, gateway: str = "a") -> None:
    book.answered(pool.sync(gateway, book.asks(now), now), now)


def ask(
    book: SliceBook,
    pool: Pool,
    now: float,
    request_id: str,
    *,
    who: Who = SHOP,
    tokens: int = 10,
    money: int = 0,
    gateway: str = "a",
) -> QuotaAnswer:
    """Reserves as a gateway does: where a slice is needed it is fetched first."""
    answer = book.reserve(request_id, who, tokens, money, now)
    for _ in range(3):
        if not isinstance(answer, NeedsSlice):
            break
        sync(book, pool, now, gateway)
        answer = book.reserve(request_id, who, tokens, money, now)
    return answer
