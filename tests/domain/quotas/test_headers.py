from __future__ import annotations

import pytest

from controlplane.domain.quotas.book import SliceBook
from controlplane.domain.quotas.headers import RateLimitHeaders, duration
from controlplane.domain.quotas.pool import Pool
from tests.domain.quotas.making import NOW, SHOP, ask, make_quota


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.0171, "18ms"), (1, "1s"), (8.64, "8.64s"), (360, "6m0s"), (7380, "2h3m0s"), (59.9999, "1m0s")],
)
def test_times_are_written_as_openai_writes_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_headers_show_the_tightest_limit_of_each_unit() -> None:
    quotas = [
        make_quota("wide", requests_per_minute=600, tokens_per_minute=60_000),
        make_quota("key", key_id="1", requests_per_minute=60, tokens_per_day=10**9),
    ]
    book, pool = SliceBook(quotas), Pool()
    ask(book, pool, NOW, "1", tokens=1000)
    headers = RateLimitHeaders(book.meters_of(SHOP))
    assert (headers.name + b": " + headers.value(NOW)).decode().split("\r\n") == [
        "x-ratelimit-limit-requests: 60",
        "x-ratelimit-remaining-requests: 59",
        "x-ratelimit-reset-requests: 1s",
        "x-ratelimit-limit-tokens: 60000",
        "x-ratelimit-remaining-tokens: 59000",
        "x-ratelimit-reset-tokens: 1s",
    ]


def test_what_has_no_limit_a_minute_has_no_headers() -> None:
    book = SliceBook([make_quota("day", tokens_per_day=10), make_quota("once", concurrent_requests=2)])
    assert RateLimitHeaders(book.meters_of(SHOP)).name == b""
