"""The planner: what fits, what it carries, how fast it is, and how many cards a load takes. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from controlplane.console import (
    planner_answer,
    planner_form,
    planner_head,
    planner_load,
    planner_more,
    planner_upload,
    rest,
    sentences,
)
from controlplane.console.dialogs import Field, Values
from controlplane.console.guard import ACTS, STATUS, page
from controlplane.deployments.planner import answers, inputs, starting
from controlplane.deployments.planner.fields import MOST_FILE_BYTES
from controlplane.domain.capacity import trace_file
from controlplane.domain.errors import RefusedError
from controlplane.domain.ledger import one_request

_EXAMPLE = (
    "?source=known&model=Llama-3.1-70B-Instruct&gpu=H100+80GB&cards_per_node=8&max_model_len=8192&input_tokens=1000"
    "&output_tokens=300&peak_requests_per_s=4"
)


@page()
def planner(request: HttpRequest) -> HttpResponse:
    """The form, filled in by the address, and the answer."""
    return _page(request, request.GET.dict(), {})


@page(methods=ACTS)
def question(request: HttpRequest) -> HttpResponse:
    """The form sent without any script, with its files: the address of the page that holds it all."""
    values, problems = planner_upload.read(request.POST, request.FILES)
    if problems:
        return _page(request, values, problems)
    return HttpResponseRedirect(f"{reverse('planner')}?{urlencode(values)}", status=303)


def _page(request: HttpRequest, values: Values, unread: dict[str, str]) -> HttpResponse:
    """`unread`: what is wrong with files that came with the form."""
    answer = _answered(values)
    problems: dict[str, str] = {**answer["problems"], **unread}
    source = planner_form.source_of(values)

    def told(found: Iterable[Field]) -> list[Field]:
        return [replace(one, problem=problems.get(one.name, "")) for one in found]

    sliders = planner_form.sliders(values)
    engine = told(planner_more.engine_fields(values))
    more = told(planner_more.more_fields(values))
    measured = told(planner_more.measured_fields(values))
    context = {
        **answer,
        "problems": problems,
        "source": source,
        "sources": [
            ("known", _("By name")),
            ("catalog", _("Catalog")),
            ("config", "config.json"),
        ],
        "model": {one.name: one for one in told(planner_form.model_fields(values))},
        "cards": told(planner_form.card_fields(values)),
        "lengths": planner_load.lengths_of(values),
        "length_choices": [("mean", _("Mean lengths")), ("percentiles", _("Percentiles"))],
        "length": {one.name: one for one in told(planner_load.length_fields(values))},
        "percentiles": [(label, told(found)) for label, found in planner_load.percentile_fields(values)],
        "trace_kind": planner_load.trace_kind(values),
        "hints": {"cards": planner_load.hint(values, ""), "trace": planner_load.hint(values, "rates")},
        "load": told(planner_load.load_fields(values)),
        "sliders": [
            replace(one, field=field)
            for one, field in zip(sliders, told(slider.field for slider in sliders), strict=True)
        ],
        "settings": told(planner_form.setting_fields(values)),
        "measured": measured,
        "measured_open": any(one.problem or (one.value and one.value != "true") for one in measured),
        "engine": engine,
        "engine_open": any(one.problem or one.value for one in engine),
        "more": more,
        "more_open": any(one.problem or (one.value and one.name != "survive_node_loss") for one in more),
        "model_names": planner_form.model_names(),
        "card_names": planner_form.card_names(),
        "most_config_bytes": planner_form.MOST_CONFIG_BYTES,
        "most_file_bytes": MOST_FILE_BYTES,
    }
    return render(request, "planner/page.html", context, status=422 if unread else 200)


@page(methods=ACTS)
def answer(request: HttpRequest) -> HttpResponse:
    """The answer alone, while the form is filled in."""
    context = _answered(request.POST.dict())
    error: RefusedError | None = context.get("error")
    return render(request, "planner/answer.html", context, status=STATUS[error.kind] if error else 200)


@page(methods=ACTS)
def files(request: HttpRequest) -> HttpResponse:
    """Takes an index of safetensors files and returns what a question needs of it, short enough for an address."""
    try:
        return JsonResponse({"safetensors": planner_upload.index(request.read(MOST_FILE_BYTES + 1))})
    except planner_upload.UnreadError as unread:
        return JsonResponse({"problem": unread.problem}, status=422)


@page(methods=ACTS)
def trace(request: HttpRequest) -> HttpResponse:
    """Takes a trace and returns what a question needs of it, short enough for an address."""
    try:
        kept = planner_upload.trace(request.read(trace_file.MOST_BYTES + 1))
    except planner_upload.UnreadError as unread:
        return JsonResponse({"problem": unread.problem}, status=422)
    return JsonResponse({"trace": kept, "kind": planner_load.trace_kind({"trace": kept})})


def _answered(values: Values) -> dict[str, Any]:
    if not planner_form.is_asked(values):
        return {"empty": True, "example": _EXAMPLE, "problems": {}, "taken": {}}
    try:
        asked = planner_form.read(values)
        question = inputs.read(asked)
        found = answers.estimate(question)
        capacity = answers.capacity_of(found, question)
    except RefusedError as error:
        hint = sentences.said_right(error.hint)
        return {"error": error, "hint": hint, "problems": _problems(error), "taken": {}}
    best = capacity.needed.best if capacity.needed else None
    plan = best.plan if best is not None and best.split == found.split else None
    start = starting.of(found, question, plan)
    return {
        "answer": found,
        "ledger": found.ledger,
        "chosen": found.chosen,
        "knee": planner_answer.knee_point(found.chosen),
        "knee_all": None if found.chosen is None else found.chosen.knee.concurrency * found.chosen.copies,
        "bar": planner_answer.bar(found),
        "stages": planner_answer.stages(found),
        "candidates": planner_answer.candidates(found),
        "asked": found.asked,
        "faces": planner_answer.faces(found),
        "curves": planner_answer.curves(found),
        "calibration": found.calibration,
        "before": found.before,
        "parts": planner_answer.calibrated_parts(found.calibration),
        "rejected": planner_answer.rejected(found.ranking.rejected),
        "capacity": capacity,
        "currency": "USD" if question.price_per_hour is None else "",
        "head": planner_head.of(found),
        "starts": found.ledger.verdict.reason not in one_request.NEVER_STARTS,
        "start": start,
        "new_url": planner_answer.new_deployment(start),
        "taken": planner_answer.taken(found),
        "problems": {},
        "rest": rest.call("POST", "planner/estimate/", {name: one for name, one in asked.items() if one != ""}),
    }


def _problems(error: RefusedError) -> dict[str, str]:
    """What is wrong at each field: the sentence that was made for it, or the domain's and what would be right."""
    if error.code == planner_form.CODE:
        return error.fields
    return {name: planner_upload.at_field(error.message, right) for name, right in error.fields.items()}
