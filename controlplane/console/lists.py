"""Lists: filters, order and page live in the URL, so a view can be sent to a colleague."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class Chip:
    """One choice of a filter: its words, how many rows it has, and where it leads."""

    label: str
    query: str
    chosen: bool
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: `sort` is its name in the URL ("" = can't be sorted), `note` what the label can't say."""

    label: str
    sort: str = ""
    css: str = ""
    unit: str = ""
    note: str = ""


@dataclass(slots=True)
class Listing:
    """What a table needs: one page of rows, how it was chosen, and the links that choose differently."""

    params: dict[str, str]
    columns: Sequence[Column]
    page: Page[Any]
    groups: list[tuple[str, list[Chip]]] = field(default_factory=list)

    @property
    def filtered(self) -> bool:
        """Whether something is left out."""
        return any(key not in ("sort", "page") for key in self.params)

    @property
    def search(self) -> str:
        return self.params.get("q", "")

    @property
    def kept(self) -> list[tuple[str, str]]:
        """Parameters that a search form has to keep."""
        return [(key, value) for key, value in self.params.items() if key not in ("q", "page")]

    @property
    def heads(self) -> list[tuple[Column, str, str]]:
        """Each column with the query that sorts by it and its aria-sort."""
        current = self.params.get("sort", "")
        found = []
        for column in self.columns:
            turned = f"-{column.sort}" if current == column.sort else column.sort
            way = {column.sort: "ascending", f"-{column.sort}": "descending"}.get(current, "") if column.sort else ""
            found.append((column, self.query(sort=turned, page=None), way))
        return found

    @property
    def earlier(self) -> str:
        return self.query(page=str(self.page.previous_page_number())) if self.page.has_previous() else ""

    @property
    def later(self) -> str:
        return self.query(page=str(self.page.next_page_number())) if self.page.has_next() else ""

    def query(self, **changes: str | None) -> str:
        """Returns the query string with some parameters changed or, where None, taken out."""
        return query_of(self.params, **changes)

    def add_chips(self, name: str, key: str, choices: Iterable[tuple[str, str, int | None]]) -> None:
        """Adds one filter: (value, label, count) each; the value "" means all."""
        current = self.params.get(key, "")
        chips = [
            Chip(label, self.query(**{key: value or None, "page": None}), current == value, number)
            for value, label, number in choices
        ]
        self.groups.append((name, chips))


def query_of(params: Mapping[str, str], **changes: str | None) -> str:
    """Returns `?a=b…` of the parameters with changes; "?" when nothing is left, which clears the URL."""
    merged = {**params, **changes}
    return "?" + urlencode({key: value for key, value in merged.items() if value})


def params_of(request: HttpRequest, allowed: Sequence[str]) -> dict[str, str]:
    """Returns the known parameters of the request that are not empty."""
    names = (*allowed, "q", "sort", "page")
    # no NUL: PostgreSQL refuses it with an error that nobody could read
    found = {name: request.GET.get(name, "").strip().replace("\0", "")[:200] for name in names}
    return {name: value for name, value in found.items() if value}


def listing(
    rows: QuerySet[Any], params: dict[str, str], columns: Sequence[Column], *, size: int = PAGE_SIZE, tie: str = "pk"
) -> Listing:
    """Returns one page of the rows in the order the URL asks for; an unknown order is ignored."""
    sort = params.get("sort", "")
    fields = {column.sort for column in columns if column.sort}
    if sort.lstrip("-") in fields:
        rows = rows.order_by(sort, tie)
    else:
        params.pop("sort", None)
    paginator = Paginator(rows, size)
    return Listing(params, columns, paginator.get_page(params.get("page", "1")))
