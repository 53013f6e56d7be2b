"""What a step of a degradation ladder does, in words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.utils.translation import gettext as _

from controlplane.console import traffic_words, units
from controlplane.domain import degradation
from controlplane.domain.degradation import Step


def told(step: Any) -> str:
    """Returns what a step does (a `degradation.Step`, or one as its row has it)."""
    kind, tiers, max_tokens, deployment = (_part(step, name) for name in ("kind", "tiers", "max_tokens", "deployment"))
    who = ", ".join(traffic_words.tier(one) for one in tiers or ()) or _("all tiers")
    if kind == "cap_tokens":
        return _("Answers have at most %(n)s tokens (%(who)s)") % {"n": units.count(max_tokens), "who": who}
    if kind == "divert":
        return _("Requests go to %(deployment)s (%(who)s)") % {"deployment": deployment, "who": who}
    if kind == "shed":
        return _("Requests are refused (%(who)s)") % {"who": who}
    return f"{kind} ({who})"


def kind_word(kind: str) -> str:
    """Returns what a kind of step is called where there is no room for its numbers."""
    texts = {"cap_tokens": _("shorter answers"), "divert": _("another deployment answers"), "shed": _("refusals")}
    return texts.get(kind, kind)


def plain(step: Step) -> dict[str, Any]:
    """Returns a step as REST takes it: with the fields that its kind uses."""
    return {
        name: list(value) if name == "tiers" else value
        for name, value in asdict(step).items()
        if degradation.uses(step.kind, name)
    }


def _part(step: Any, name: str) -> Any:
    return step.get(name) if isinstance(step, dict) else getattr(step, name)
