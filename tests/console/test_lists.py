from __future__ import annotations

import pytest
from django.test import RequestFactory

from controlplane.accounts.models import Tenant
from controlplane.console.lists import Column, listing, params_of

pytestmark = [pytest.mark.django_db, pytest.mark.services]
COLUMNS = [Column("Name", "name"), Column("Text")]


def test_only_known_parameters_are_kept() -> None:
    request = RequestFactory().get("/?state=ready&evil=1&q=%20chat%20&page=&id=a%00b")
    assert params_of(request, ("state", "id")) == {"state": "ready", "id": "ab", "q": "chat"}


def test_a_sorted_column_leads_to_the_other_way() -> None:
    table = listing(Tenant.objects.all(), {"sort": "name", "state": "x"}, COLUMNS)
    (_, query, way), (_, _, unsorted) = table.heads
    assert (query, way, unsorted) == ("?sort=-name&state=x", "ascending", "")


def test_an_unknown_order_and_a_page_beyond_the_end_are_not_errors() -> None:
    Tenant.objects.create(name="a")
    table = listing(Tenant.objects.all(), {"sort": "password", "page": "99"}, COLUMNS)
    assert [row.name for row in table.page] == ["a"] and "sort" not in table.params


def test_pages_follow_each_other_with_the_filters() -> None:
    for number in range(5):
        Tenant.objects.create(name=f"t{number}")
    table = listing(Tenant.objects.all(), {"q": "t", "page": "2"}, COLUMNS, size=2)
    assert [row.name for row in table.page] == ["t2", "t3"]
    assert (table.earlier, table.later) == ("?q=t&page=1", "?q=t&page=3")


def test_choosing_a_chip_starts_at_the_first_page() -> None:
    table = listing(Tenant.objects.all(), {"state": "ready", "page": "3"}, COLUMNS)
    table.add_chips("State", "state", [("", "All", 3), ("ready", "Ready", 1), ("failed", "Failed", None)])
    chips = table.groups[0][1]
    assert [(chip.query, chip.chosen) for chip in chips] == [
        ("?", False),
        ("?state=ready", True),
        ("?state=failed", False),
    ]
