from __future__ import annotations

import pytest

from controlplane.domain.quotas.answers import Granted, NeedsSlice, QuotaAnswer, QuotaRefusal, moment
from controlplane.domain.quotas.book import SliceBook
from controlplane.domain.quotas.pool import Pool
from controlplane.domain.quotas.quota import Price, Who
from controlplane.domain.quotas.windows import window_of
from tests.domain.quotas.making import NOW, SHOP, ask, make_quota, sync


def refused(answer: QuotaAnswer) -> QuotaRefusal:
    assert isinstance(answer, QuotaRefusal)
    return answer


def test_without_a_quota_nothing_is_limited_or_counted() -> None:
    book = SliceBook([make_quota(tenant="other", requests_per_minute=1)])
    assert [type(book.reserve(str(n), SHOP, 10**9, 10**9, NOW)) for n in range(3)] == [Granted] * 3
    assert not book.open
    assert not book.wants_sync


def test_a_slice_lasts_for_many_requests() -> None:
    book, pool = SliceBook([make_quota(requests_per_minute=6000)]), Pool()
    assert isinstance(book.reserve("0", SHOP, 10, 0, NOW), NeedsSlice)
    assert book.wants_sync
    sync(book, pool, NOW)
    assert all(isinstance(book.reserve(str(n), SHOP, 10, 0, NOW), Granted) for n in range(100))


def test_the_refusal_names_quota_limit_and_when_there_is_room() -> None:
    book, pool = SliceBook([make_quota("burst", requests_per_minute=2)]), Pool()
    assert isinstance(ask(book, pool, NOW, "1"), Granted)
    assert isinstance(ask(book, pool, NOW, "2"), Granted)
    found = refused(ask(book, pool, NOW, "3"))
    assert (found.code, found.quota, found.measure, found.limit) == (
        "rate_limit_exceeded", "burst", "requests_per_minute", 2,
    )  # fmt: skip
    assert found.resets_at == NOW + 30
    assert found.retry_after_s == 30
    assert found.why == (
        "The quota burst allows 2 requests a minute; there is room for this request at 2026-11-30 00:53:50 UTC."
    )
    assert isinstance(ask(book, pool, NOW + 30, "3"), Granted)


def test_a_budget_is_there_again_with_the_next_calendar_window() -> None:
    book, pool = SliceBook([make_quota(tokens_per_day=100, tokens_per_month=150)]), Pool()
    assert isinstance(ask(book, pool, NOW, "1", tokens=100), Granted)
    book.settle("1", 100, 0)
    found = refused(ask(book, pool, NOW, "2", tokens=50))
    assert (found.code, found.measure) == ("insufficient_quota", "tokens_per_day")
    assert found.resets_at == 1_796_083_200  # 2026-12-01: a new day, and a new month
    assert isinstance(ask(book, pool, NOW + 86_400, "2", tokens=100), Granted)
    book.settle("2", 100, 0)
    found = refused(ask(book, pool, NOW + 2 * 86_400, "3", tokens=60))
    assert found.measure == "tokens_per_month"
    book.check_invariants()


def test_a_request_larger_than_the_whole_limit_is_told_so() -> None:
    book, pool = SliceBook([make_quota(tokens_per_minute=100)]), Pool()
    found = refused(ask(book, pool, NOW, "1", tokens=101))
    assert found.why == "This request needs 101, but the quota q allows 100 tokens a minute."
    assert not book.open


def test_money_is_counted_in_millionths() -> None:
    price = Price(prompt_per_million=0.15, completion_per_million=0.6)
    assert price.cost(1_000_000, 0) == 150_000
    assert price.cost(1, 1) == 1  # rounded up
    book, pool = SliceBook([make_quota(money_per_month=1_500_000)]), Pool()
    assert isinstance(ask(book, pool, NOW, "1", money=1_000_000), Granted)
    found = refused(ask(book, pool, NOW, "2", money=600_000))
    assert "allows 1.50 a month in money" in found.why
    book.settle("1", 10, 900_000)
    assert isinstance(ask(book, pool, NOW + 1, "2", money=600_000), Granted)


def test_what_was_not_used_is_there_for_the_next_request() -> None:
    book, pool = SliceBook([make_quota(tokens_per_day=1000)]), Pool()
    assert isinstance(ask(book, pool, NOW, "1", tokens=1000), Granted)
    assert isinstance(ask(book, pool, NOW, "2", tokens=1), QuotaRefusal)
    book.settle("1", 200, 0)
    assert isinstance(ask(book, pool, NOW, "2", tokens=800), Granted)
    book.refund("2")
    assert isinstance(ask(book, pool, NOW, "3", tokens=800), Granted)


def test_places_are_free_again_when_requests_end_in_whichever_way() -> None:
    book, pool = SliceBook([make_quota(concurrent_requests=2)]), Pool()
    assert isinstance(ask(book, pool, NOW, "1"), Granted)
    assert isinstance(ask(book, pool, NOW, "2"), Granted)
    found = refused(ask(book, pool, NOW, "3"))
    assert found.resets_at is None
    assert found.why == "The quota q allows 2 requests at once, and so many are running."
    book.settle("1", 5, 0)
    book.refund("2")
    book.refund("2")
    assert isinstance(ask(book, pool, NOW, "3"), Granted)
    book.check_invariants()


def test_a_quota_counts_its_own_key_and_deployment_only() -> None:
    quotas = [
        make_quota("key", key_id="7", requests_per_minute=1),
        make_quota("deployment", deployment="big", requests_per_minute=1),
    ]
    book, pool = SliceBook(quotas), Pool()
    for number in range(3):
        assert isinstance(ask(book, pool, NOW, f"free{number}"), Granted)
    who = Who("shop", "7", "big")
    assert isinstance(ask(book, pool, NOW, "1", who=who), Granted)
    assert refused(ask(book, pool, NOW, "2", who=Who("shop", "7", "chat"))).quota == "key"
    assert refused(ask(book, pool, NOW, "3", who=Who("shop", "8", "big"))).quota == "deployment"


def test_of_several_limits_all_or_none_are_reserved() -> None:
    book, pool = SliceBook([make_quota(requests_per_minute=100, tokens_per_day=100)]), Pool()
    assert isinstance(ask(book, pool, NOW, "1", tokens=90), Granted)
    assert isinstance(ask(book, pool, NOW, "2", tokens=90), QuotaRefusal)
    book.check_invariants()
    assert {meter.reserved for meter in book.meters.values()} == {1, 90}


def test_two_gateways_share_one_limit() -> None:
    pool = Pool()
    books = {name: SliceBook([make_quota(requests_per_minute=10)]) for name in "ab"}
    granted = 0
    for number in range(40):
        name = "ab"[number % 2]
        granted += isinstance(ask(books[name], pool, NOW + number / 1000, str(number), gateway=name), Granted)
    assert granted == 10


def test_a_store_is_given_up_when_another_gateway_is_refused() -> None:
    pool = Pool()
    a, b = (SliceBook([make_quota(concurrent_requests=1)]) for _ in "ab")
    assert isinstance(ask(a, pool, NOW, "1", gateway="a"), Granted)
    a.settle("1", 1, 0)
    assert isinstance(ask(b, pool, NOW, "2", gateway="b"), QuotaRefusal)
    sync(a, pool, NOW + 1, "a")  # hears that somebody is short
    sync(a, pool, NOW + 1.1, "a")
    assert isinstance(ask(b, pool, NOW + 1.2, "2", gateway="b"), Granted)


def test_what_a_dead_gateway_held_is_back_within_five_seconds() -> None:
    pool = Pool()
    a, b = (SliceBook([make_quota(concurrent_requests=3)]) for _ in "ab")
    for number in range(3):
        assert isinstance(ask(a, pool, NOW, str(number), gateway="a"), Granted)
    assert isinstance(ask(b, pool, NOW + 1, "x", gateway="b"), QuotaRefusal)
    assert isinstance(ask(b, pool, NOW + 5, "x", gateway="b"), Granted)


def test_without_valkey_it_goes_on_with_what_it_holds_and_says_so() -> None:
    book, pool = SliceBook([make_quota(tokens_per_day=10_000)]), Pool()
    ask(book, pool, NOW, "1", tokens=100)
    held = book.meters["shop/q:tokens_per_day"].stock
    book.failed(NOW + 1)
    assert isinstance(ask(book, pool, NOW + 1, "2", tokens=held), Granted)
    found = refused(book.reserve("3", SHOP, 1, 0, NOW + 2))
    assert "can't reach Valkey" in found.why
    _, ends_at = window_of("day", NOW)
    assert found.resets_at == ends_at and found.retry_after_s == ends_at - NOW - 2, "1 s would be a lie"
    assert moment(ends_at) in found.why
    assert [book.cut_off_at] == [NOW + 1]
    sync(book, pool, NOW + 3)
    assert [book.cut_off_at] == [None]
    assert isinstance(ask(book, pool, NOW + 3, "3", tokens=1), Granted)


def test_who_loses_each_slice_to_others_is_told_of_which_quota() -> None:
    book = SliceBook([make_quota(requests_per_minute=600, tokens_per_day=10_000)])
    needs = book.reserve("1", SHOP, 1, 0, NOW)
    assert isinstance(needs, NeedsSlice)
    found = book.contended(book.meters_of(SHOP), needs)
    assert (found.quota, found.measure, found.limit) == ("q", "requests_per_minute", 600)
    assert "The quota q allows 600 requests a minute" in found.why and found.retry_after_s == 1


def test_without_valkey_a_limit_a_minute_goes_on_filling() -> None:
    book, pool = SliceBook([make_quota(requests_per_minute=60)]), Pool()
    ask(book, pool, NOW, "0")
    book.failed(NOW)
    granted = sum(
        isinstance(book.reserve(str(n + 1), SHOP, 1, 0, NOW + n / 10), Granted) for n in range(600)
    )  # ten times the limit
    assert 55 <= granted <= 65


def test_without_valkey_each_gateway_has_its_part_of_the_places() -> None:
    pool = Pool()
    a, b = (SliceBook([make_quota(concurrent_requests=10)]) for _ in "ab")
    for name, book in (("a", a), ("b", b)):
        assert isinstance(ask(book, pool, NOW, "first", gateway=name), Granted)
    sync(a, pool, NOW + 1, gateway="a")
    for book in (a, b):
        book.failed(NOW + 1)
        for number in range(20):
            book.reserve(str(number), SHOP, 1, 0, NOW + 1)
        assert len(book.open) == 5
        book.settle("1", 0, 0)
        assert isinstance(book.reserve("again", SHOP, 1, 0, NOW + 2), Granted)
        book.check_invariants()


def test_a_gateway_that_starts_without_valkey_has_one_slice() -> None:
    book = SliceBook([make_quota(tokens_per_month=1000)])
    book.failed(NOW)
    granted = sum(isinstance(book.reserve(str(n), SHOP, 10, 0, NOW), Granted) for n in range(100))
    assert granted == 5  # a twentieth
    pool = Pool()
    sync(book, pool, NOW + 5)
    assert pool.limits["shop/q:tokens_per_month", 2026 * 12 + 10].out >= 50


def test_a_word_whose_answer_was_lost_counts_once() -> None:
    book, pool = SliceBook([make_quota(tokens_per_day=1000)]), Pool()
    ask(book, pool, NOW, "1", tokens=100)
    book.settle("1", 60, 0)
    pool.sync("a", book.asks(NOW + 1), NOW + 1)
    book.failed(NOW + 1)
    sync(book, pool, NOW + 2)
    sync(book, pool, NOW + 20)  # idle: everything that is held goes back
    sync(book, pool, NOW + 40)
    assert pool.limits["shop/q:tokens_per_day", int(NOW // 86_400)].out == 60


def test_more_than_was_estimated_is_a_debt_that_is_paid() -> None:
    book, pool = SliceBook([make_quota(tokens_per_day=1000)]), Pool()
    ask(book, pool, NOW, "1", tokens=10)
    book.settle("1", 700, 0)
    sync(book, pool, NOW + 1)
    sync(book, pool, NOW + 30)
    sync(book, pool, NOW + 60)
    assert pool.limits["shop/q:tokens_per_day", int(NOW // 86_400)].out == 700
    book.check_invariants()


def test_a_lower_limit_holds_at_once_and_a_removed_quota_gives_everything_back() -> None:
    book, pool = SliceBook([make_quota(tokens_per_day=1000)]), Pool()
    ask(book, pool, NOW, "1", tokens=100)
    book.set_quotas([make_quota(tokens_per_day=100)])
    sync(book, pool, NOW + 1)
    assert isinstance(ask(book, pool, NOW + 2, "2", tokens=10), QuotaRefusal)
    book.set_quotas([])
    assert isinstance(book.reserve("3", SHOP, 10, 0, NOW), Granted)
    book.refund("1")
    sync(book, pool, NOW + 3)
    assert pool.limits["shop/q:tokens_per_day", int(NOW // 86_400)].out == 0
    assert not book.asks(NOW + 4)


@pytest.mark.parametrize("kind", ["requests_per_minute", "concurrent_requests", "tokens_per_day"])
def test_a_limit_of_zero_lets_nothing_pass(kind: str) -> None:
    book, pool = SliceBook([make_quota("q", "shop", "", "", **{kind: 0})]), Pool()
    assert isinstance(ask(book, pool, NOW, "1"), QuotaRefusal)
    book.failed(NOW)
    assert isinstance(ask(book, pool, NOW, "1"), QuotaRefusal)


def test_a_gateway_that_ends_gives_back_what_it_holds() -> None:
    book, pool = SliceBook([make_quota(tokens_per_day=1000, requests_per_minute=100)]), Pool()
    ask(book, pool, NOW, "1", tokens=100)
    book.settle("1", 40, 0)
    book.answered(pool.sync("a", book.leaving(), NOW + 0.1), NOW + 0.1)
    pool.leave("a")
    assert pool.limits["shop/q:tokens_per_day", int(NOW // 86_400)].out == 40


def test_what_came_back_here_and_what_is_left_there_are_added_up_at_once() -> None:
    book, pool = SliceBook([make_quota(tokens_per_day=1000)]), Pool()
    assert isinstance(ask(book, pool, NOW, "1", tokens=720), Granted)
    assert isinstance(ask(book, pool, NOW, "2", tokens=720), QuotaRefusal)
    book.settle("1", 10, 0)
    assert isinstance(ask(book, pool, NOW, "3", tokens=720), Granted)
