"""Dialogs and forms: one shape for everything that asks before it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from controlplane.console.guard import STATUS, is_fragment
from controlplane.domain.errors import RefusedError

Values = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form. `kind`: text | number | select | check | password | area | hidden."""

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

    @property
    def id(self) -> str:
        return "f-" + self.name.replace(".", "-")


@dataclass(frozen=True, slots=True)
class Dialog:
    """What a dialog says: in numbers what will happen, what it asks, and the REST call that does the same."""

    title: str
    confirm: str
    says: Sequence[str] = ()
    fields: Sequence[Field] = ()
    rest: str = ""
    danger: bool = False
    back: str = "/"
    error: RefusedError | None = None
    hidden: Sequence[tuple[str, str]] = field(default_factory=tuple)


def ask(
    request: HttpRequest,
    build: Callable[[Values], Dialog],
    do: Callable[[Values], HttpResponse],
) -> HttpResponse:
    """Shows the dialog on GET and does it on POST; what is refused is said in the dialog, at its fields."""
    if request.method != "POST":
        return show(request, build(request.GET.dict()))
    values = request.POST.dict()
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


def leave(request: HttpRequest, url: str, message: str = "") -> HttpResponse:
    """Returns to a page after something was done, and says so there."""
    if message:
        messages.success(request, message)
    if is_fragment(request):
        response = HttpResponse(status=204)
        response["HX-Redirect"] = url
        return response
    return redirect(url)


def whole(values: Values, name: str, default: int | None = None) -> int:
    """Returns a field as a whole number; refuses, at the field, what is none."""
    text = values.get(name, "").strip()
    if not text and default is not None:
        return default
    try:
        return int(text)
    except ValueError:
        sentence = _("Give a whole number.")
        raise RefusedError("invalid", sentence, fields={name: sentence}) from None
