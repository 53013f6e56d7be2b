"""The load in the planner's form: lengths as means or percentiles, a trace in their place, rates and objectives."""

from __future__ import annotations

import json
from collections.abc import Mapping

from django.utils.translation import gettext as _

from controlplane.console.dialogs import Field, Values
from controlplane.console.planner_numbers import maker
from controlplane.deployments.planner.fields import PERCENTILES

MEANS = ("input_tokens", "output_tokens")
PERCENTILE_FIELDS = tuple(f"{side}_p{one}" for side in ("input", "output") for one in PERCENTILES)


def trace_kind(values: Values) -> str:
    """Returns what the trace that is held has: lengths (and rates), rates alone, or the empty text without one."""
    try:
        found = parse(values.get("trace", "") or "null")
    except ValueError:
        return ""
    if not isinstance(found, Mapping):
        return ""
    return "lengths" if found.get("input") else "rates"


def lengths_of(values: Values) -> str:
    """Returns how lengths are given: mean or percentiles."""
    return "percentiles" if values.get("lengths") == "percentiles" else "mean"


def left_out(values: Values) -> frozenset[str]:
    """Fields that stand beside the chosen way to say lengths."""
    if trace_kind(values) == "lengths":
        return frozenset(MEANS + PERCENTILE_FIELDS)
    return frozenset(MEANS if lengths_of(values) == "percentiles" else PERCENTILE_FIELDS)


def parse(text: str) -> object:
    """Returns the values of a JSON text; raises ValueError for what is none, or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def length_fields(values: Values) -> list[Field]:
    """Returns the mean lengths, and the trace that may stand in their place."""
    make = maker(values)
    return [
        make("input_tokens", _("Prompt"), _("tokens")),
        make("output_tokens", _("Answer"), _("tokens")),
        Field("trace", _("Trace"), "hidden", values.get("trace", "")),
    ]


def percentile_fields(values: Values) -> list[tuple[str, list[Field]]]:
    """Returns the percentiles of prompts and of answers, each under its heading."""
    make = maker(values)
    return [
        (label, [make(f"{side}_p{one}", f"p{one}") for one in PERCENTILES])
        for side, label in (("input", _("Prompt, tokens")), ("output", _("Answer, tokens")))
    ]


def hint(values: Values, kind: str | None = None) -> str:
    """Returns what an empty rate at the peak means: that of the trace where one is held."""
    held = trace_kind(values) if kind is None else kind
    return _("Empty: that of the trace.") if held else _("Empty: as many as the cards carry.")


def load_fields(values: Values) -> list[Field]:
    """Returns what is asked of the cards."""
    make = maker(values)
    empty = hint(values)
    purposes = (("interactive", _("Interactive: people wait")), ("offline", _("Offline: throughput counts")))
    return [
        make("peak_requests_per_s", _("Requests at the peak"), _("a second"), empty),
        make("mean_requests_per_s", _("Requests on average"), _("a second")),
        make("ttft_ms", _("First token within"), "ms"),
        make("tpot_ms", _("Each token within"), "ms"),
        Field("purpose", _("Purpose"), "select", values.get("purpose", "interactive"), choices=purposes, full=True),
    ]
