"""Dialogs and forms: one shape for everything that asks before it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from controlplane.console.guard import STATUS, is_fragment
from controlplane.domain.errors import RefusedError

MOST_CHOICES = 200  # of a menu
LARGEST = 2**63 - 1  # that a column holds

Values = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form. `kind`: text | number | select | check | password | area | hidden.

    `asks_more`: which other fields there are depends on what is chosen here, so the form is shown again then.
    """

    name: str
    label: str
    kind: str = "text"
    value: str = ""
    help: str = ""
    problem: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    step: str = ""
    unit: str = ""
    required: bool = False
    full: bool = False
    placeholder: str = ""
    asks_more: bool = False

    @property
    def id(self) -> str:
        return "f-" + self.name.replace(".", "-")


@dataclass(frozen=True, slots=True)
class Dialog:
    """What a dialog says: in numbers what will happen, what it asks, and the REST call that does the same.

    `version` is that of the object as it is shown: it comes back with the form, so that nobody overwrites what somebody
    else has changed meanwhile (`seen`).
    """

    title: str
    confirm: str
    says: Sequence[str] = ()
    fields: Sequence[Field] = ()
    rest: str = ""
    danger: bool = False
    back: str = "/"
    error: RefusedError | None = None
    version: int | None = None
    hidden: Sequence[tuple[str, str]] = field(default_factory=tuple)


def ask(
    request: HttpRequest,
    build: Callable[[Values], Dialog],
    do: Callable[[Values], HttpResponse],
) -> HttpResponse:
    """Shows the dialog on GET and does it on POST; what is refused is said in the dialog, at its fields.

    While a form is filled in, its REST call is asked for by POST, because a password has no place in an address; so is
    the form itself once a choice asks for other fields (`Field.asks_more`).
    """
    if request.method != "POST":
        return show(request, build(request.GET.dict()))
    values = request.POST.dict()
    if values.get("only") == "rest":
        return render(request, "parts/command.html", {"command": build(values).rest})
    if values.get("only") == "fields":
        return show(request, build(values))
    try:
        return do(values)
    except RefusedError as error:
        if error.kind not in ("invalid", "conflict"):
            raise
        dialog = build(values)
        refused = replace(dialog, error=error, fields=with_problems(dialog.fields, error))
        return show(request, refused, STATUS[error.kind])


def show(request: HttpRequest, dialog: Dialog, status: int = 200) -> HttpResponse:
    """Returns the dialog's content, or a page of its own for a browser without scripts."""
    template = "parts/dialog.html" if is_fragment(request) else "dialog_page.html"
    return render(request, template, {"dialog": dialog}, status=status)


def with_problems(fields: Sequence[Field], error: RefusedError | None) -> list[Field]:
    """Returns the fields with what is wrong at each."""
    found = error.fields if error else {}
    return [replace(one, problem=found.get(one.name, one.problem)) for one in fields]


def leave(request: HttpRequest, url: str, message: str = "", *, undo: str = "") -> HttpResponse:
    """Returns to a page after something was done, and says so there; `undo` is a note of `console.undo`."""
    if message:
        messages.success(request, message, extra_tags=undo)
    if is_fragment(request):
        response = HttpResponse(status=204)
        response["HX-Redirect"] = url
        return response
    return redirect(url)


def seen(values: Values) -> int | None:
    """Returns the version that the form was shown with; None when it says none (a request made by hand)."""
    return whole(values, "version") if values.get("version", "").strip() else None


def plain(text: str) -> str | int | None:
    """Returns a field's text as REST takes it: a number where it is one, None where it is empty."""
    text = text.strip()
    return (text if (number := _number(text)) is None else number) if text else None


def or_else(text: str, default: int) -> int:
    """Returns a field's text as a whole number, for showing; what is none is the default."""
    number = _number(text)
    return default if number is None else number


def _number(text: str) -> int | None:
    """Longer ones than a database holds are no numbers here, nor are digits of other scripts."""
    try:
        return int(text) if text.isascii() and abs(int(text)) <= LARGEST else None
    except ValueError:
        return None


def pick(name: str, label: str, value: str, names: Sequence[str] | QuerySet[Any, str], *, every: str = "") -> Field:
    """Returns a field for one of many names: a menu, or a text where a menu would be too long to read.

    `every` is the word for no choice; without it one must be chosen.
    """
    known = list(names[: MOST_CHOICES + 1])
    if len(known) > MOST_CHOICES:
        help_text = _("Write the name; there are too many for a menu.")
        return Field(name, label, "text", value, help_text, required=not every, placeholder=every)
    choices = (*((("", every),) if every else ()), *((one, one) for one in known))
    return Field(name, label, "select", value, choices=choices, required=not every)


def whole(values: Values, name: str, default: int | None = None) -> int:
    """Returns a field as a whole number; refuses, at the field, what is none."""
    text = values.get(name, "").strip()
    if not text and default is not None:
        return default
    if (number := _number(text)) is not None:
        return number
    sentence = _("Give a whole number.")
    raise RefusedError("invalid", sentence, fields={name: sentence})
