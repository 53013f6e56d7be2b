"""Tiers: what interactive, standard and batch mean, for all deployments and for single ones."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from controlplane.accounts import roles
from controlplane.console import amounts, rest, rule_undo, traffic_words
from controlplane.console.amounts import PERCENT, Amount
from controlplane.console.dialogs import Dialog, Field, Values, ask, pick, seen
from controlplane.console.guard import ASKS, actor, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.console.traffic_units import MIB
from controlplane.console.views.traffic.common import chosen, deployment_names, done, show
from controlplane.traffic import owners, rule_selectors
from controlplane.traffic.models import Tier
from controlplane.traffic.rule_selectors import TIER_FIELDS
from controlplane.traffic.services import tiers as services
from controlplane.traffic.services.tiers import TierWish

_DAY_S = 86_400


@page()
def tiers(request: HttpRequest) -> HttpResponse:
    """The tiers of all deployments, and those of single ones."""
    params = params_of(request, ("deployment",))
    rows = rule_selectors.tiers(deployment=params.get("deployment")).filter(deployment__isnull=False)
    if "q" in params:
        rows = rows.filter(deployment__name__icontains=params["q"])
    columns = [Column(_("Deployment"), "deployment__name"), Column(_("Tier"), "name"), *_columns()]
    common = [] if request.headers.get("HX-Request") else [rule_selectors.tier(name) for name in owners.TIERS]
    return show(request, "tiers", listing(rows, params, columns), "tier", common=common)


@page(roles.OPERATOR, ASKS)
def edit(request: HttpRequest, tier: str) -> HttpResponse:
    """Changes a tier of all deployments that have no rules of their own for it."""
    row = rule_selectors.tier(tier)
    return _edit(request, row, row, reverse("tiers"))


@page(roles.OPERATOR, ASKS)
def edit_of(request: HttpRequest, deployment: str, tier: str) -> HttpResponse:
    """Changes a tier of one deployment; what it begins with is what holds for it now."""
    row = own(deployment, tier)
    return _edit(request, row or rule_selectors.tier(tier), row, _page_of(deployment), deployment)


@page(roles.OPERATOR, ASKS)
def new(request: HttpRequest, tier: str) -> HttpResponse:
    """Gives a deployment rules of its own for a tier."""
    base = rule_selectors.tier(tier)

    def do(values: Values) -> HttpResponse:
        return _apply(
            request, values, 0, address=(tier, chosen(values, "deployment")), before=None, url=reverse("tiers")
        )

    def build(values: Values) -> Dialog:
        name = values.get("deployment", "")
        fields = [pick("deployment", _("Deployment"), name, deployment_names()), *_fields(values, base)]
        title = _("Tier %(tier)s for one deployment") % {"tier": traffic_words.tier(tier)}
        path = f"deployments/{name or 'NAME'}/tiers/{tier}/"
        call = rest.call("PUT", path, amounts.told(_amounts(), values, _stored(base)), version=0)
        return Dialog(title, _("Save"), [], fields, call, back=reverse("tiers"))

    return ask(request, build, do)


@page(roles.OPERATOR, ASKS)
def reset(request: HttpRequest, tier: str) -> HttpResponse:
    """Makes a tier of all deployments be as built in again."""
    row = rule_selectors.tier(tier)

    def do(values: Values) -> HttpResponse:
        services.delete(actor=actor(request), name=tier, expected_version=seen(values))
        back = rule_undo.gone("tier", tier, _stored(row), name=tier) if row.version else []
        return done(request, reverse("tiers"), _("The built-in rules hold again."), back)

    dialog = Dialog(
        _("Reset tier %(tier)s") % {"tier": traffic_words.tier(tier)},
        _("Reset"),
        [_("The built-in rules hold again, for every deployment that has none of its own.")],
        rest=rest.call("DELETE", f"tiers/{tier}/", version=row.version or None),
        danger=True,
        back=reverse("tiers"),
        version=row.version,
    )
    return ask(request, lambda _values: dialog, do)


@page(roles.OPERATOR, ASKS)
def delete(request: HttpRequest, deployment: str, tier: str) -> HttpResponse:
    """Removes a deployment's own rules of a tier."""
    row = rule_selectors.tier(tier, deployment)

    def do(values: Values) -> HttpResponse:
        services.delete(actor=actor(request), name=tier, deployment=deployment, expected_version=seen(values))
        back = rule_undo.gone("tier", f"{deployment}/{tier}", _stored(row), name=tier, deployment=deployment)
        return done(request, reverse("tiers"), _("The rules of all deployments hold for it again."), back)

    dialog = Dialog(
        _("Remove tier %(tier)s of %(name)s") % {"tier": traffic_words.tier(tier), "name": deployment},
        _("Remove"),
        [_("The rules of all deployments hold for it again.")],
        rest=rest.call("DELETE", f"deployments/{deployment}/tiers/{tier}/", version=row.version),
        danger=True,
        back=reverse("tiers"),
        version=row.version,
    )
    return ask(request, lambda _values: dialog, do)


def own(deployment: str, tier: str) -> Tier | None:
    """Returns a deployment's own rules of a tier; None = it has none."""
    owners.check_tier(tier)
    owners.deployment(deployment)
    return rule_selectors.tiers(deployment=deployment).filter(name=tier).first()


def _edit(request: HttpRequest, shown: Tier, row: Tier | None, url: str, deployment: str = "") -> HttpResponse:
    version = row.version if row else 0
    before = _stored(row) if row is not None and row.version else None

    def do(values: Values) -> HttpResponse:
        return _apply(request, values, seen(values), address=(shown.name, deployment), before=before, url=url)

    def build(values: Values) -> Dialog:
        path = f"deployments/{deployment}/tiers/{shown.name}/" if deployment else f"tiers/{shown.name}/"
        where = _("It holds for %(name)s alone.") % {"name": deployment} if deployment else _everywhere()
        return Dialog(
            _("Edit tier %(tier)s") % {"tier": traffic_words.tier(shown.name)},
            _("Save"),
            [where],
            _fields(values, shown),
            rest.call("PUT", path, amounts.told(_amounts(), values, _stored(shown)), version=version),
            back=url,
            version=version,
        )

    return ask(request, build, do)


def _apply(
    request: HttpRequest, values: Values, expected: int | None, *, address: tuple[str, str], before: Any, url: str
) -> HttpResponse:
    tier, deployment = address
    wish = TierWish(**amounts.read(_amounts(), values))
    applied = services.apply(
        actor=actor(request), name=tier, deployment=deployment, wish=wish, expected_version=expected
    )
    name = f"{deployment}/{tier}" if deployment else tier
    back = rule_undo.back("tier", name, applied, before, name=tier, deployment=deployment)
    return done(request, url, _("Saved. Gateways follow within seconds."), back)


def _fields(values: Values, row: Tier) -> list[Field]:
    return amounts.fields(_amounts(), values, _stored(row))


def _stored(row: Tier) -> dict[str, Any]:
    return {name: getattr(row, name) for name in TIER_FIELDS}


def _page_of(deployment: str) -> str:
    return reverse("deployment-traffic", args=[deployment])


def _everywhere() -> str:
    return _("It holds for every deployment that has no rules of its own for this tier.")


def _columns() -> list[Column]:
    return [
        Column(_("Weight"), "weight", "num"),
        Column(_("Queue"), "queue_most", "num", _("requests")),
        Column(_("Queue"), "queue_most_bytes", "num at-l", "MiB"),
        Column(_("Longest wait"), "longest_wait_s", "num", "s"),
        Column(_("May take"), "total_base_s", "num at-l", "s"),
        Column(_("and a token"), "total_per_token_s", "num at-l", "s"),
        Column(_("KV share"), "kv_share", "num", "%"),
        Column(_("Actions"), "", "quiet"),
    ]


def _amounts() -> list[Amount]:
    weight = _("While several tiers wait they share seats by this: 8 gets twice what 4 gets.")
    wait = _("Then a request is refused; sooner where the deployment's target of the first token asks for it.")
    token = _("30 s and 0.25 s a token: a request of 1,000 tokens may take 280 s.")
    share = _("The most of a replica's KV tokens that this tier may hold: 80 keeps 20 for the others.")
    queue = _("Requests that may wait in one gateway; one more is refused at once. For example 256.")
    return [
        Amount("weight", _("Weight"), "", weight, 0, 1000, above=True),
        Amount("queue_most", _("Requests that may wait"), "", queue, whole=True),
        Amount("queue_most_bytes", _("Their bytes together"), "MiB", _("For example 64."), 0, 2**20, MIB, whole=True),
        Amount("longest_wait_s", _("Longest wait for a seat"), "s", wait, 0, _DAY_S),
        Amount("total_base_s", _("A whole request may take"), "s", token, 0, _DAY_S),
        Amount("total_per_token_s", _("and for each of its tokens"), "s", "", 0, _DAY_S),
        Amount("kv_share", _("Share of the KV cache"), "%", share, 0, 100, PERCENT, above=True),
    ]
