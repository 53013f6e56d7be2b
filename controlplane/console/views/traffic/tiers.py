"""Tiers: what interactive, standard and batch mean, for all deployments and for single ones."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from controlplane.accounts import roles
from controlplane.console import amounts, rest, rule_undo, traffic_words
from controlplane.console.amounts import PERCENT, Amount
from controlplane.console.dialogs import Dialog, Values, ask, pick, seen
from controlplane.console.guard import ASKS, actor, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.console.traffic_units import MIB
from controlplane.console.views.traffic.common import chosen, deployment_names, done, show
from controlplane.traffic import rule_selectors, tiers_in_force
from controlplane.traffic.services import tiers as services
from controlplane.traffic.services.tiers import TierWish
from controlplane.traffic.tiers_in_force import TierInForce

_DAY_S = 86_400


@page()
def tiers(request: HttpRequest) -> HttpResponse:
    """The tiers of all deployments, and those of single ones."""
    params = params_of(request, ("deployment",))
    rows = rule_selectors.tiers(deployment=params.get("deployment")).filter(deployment__isnull=False)
    if "q" in params:
        rows = rows.filter(deployment__name__icontains=params["q"])
    columns = [Column(_("Deployment"), "deployment__name"), Column(_("Tier"), "name"), *_columns()]
    common = [] if request.headers.get("HX-Request") else tiers_in_force.common()
    return show(request, "tiers", listing(rows, params, columns), "tier", common=common)


@page(roles.OPERATOR, ASKS)
def edit(request: HttpRequest, tier: str) -> HttpResponse:
    """Changes a tier of all deployments that have no rules of their own for it."""
    return _edit(request, tiers_in_force.common_one(tier), reverse("tiers"))


@page(roles.OPERATOR, ASKS)
def edit_of(request: HttpRequest, deployment: str, tier: str) -> HttpResponse:
    """Changes a tier of one deployment; what it begins with is what holds for it now."""
    shown = tiers_in_force.one(deployment, tier)
    return _edit(request, shown, _page_of(deployment), deployment)


@page(roles.OPERATOR, ASKS)
def new(request: HttpRequest, tier: str) -> HttpResponse:
    """Gives a deployment rules of its own for a tier."""
    base = tiers_in_force.common_one(tier).values() | {"kv_share": None}  # as its pool has it, which is not chosen yet

    def do(values: Values) -> HttpResponse:
        address = (tier, chosen(values, "deployment"))
        return _apply(request, values, 0, address=address, before=None, url=reverse("tiers"), new=True)

    def build(values: Values) -> Dialog:
        name = values.get("deployment", "")
        fields = [
            pick("deployment", _("Deployment"), name, deployment_names()),
            *amounts.fields(_amounts(new=True), values, base),
        ]
        title = _("Tier %(tier)s for one deployment") % {"tier": traffic_words.tier(tier)}
        path = f"deployments/{name or 'NAME'}/tiers/{tier}/"
        told = amounts.told(_amounts(new=True), values, base)
        if told["kv_share"] is None:
            told["kv_share"] = _inherited_share(name, tier)
        call = rest.call("PUT", path, told, version=0)
        return Dialog(title, _("Save"), [], fields, call, back=reverse("tiers"))

    return ask(request, build, do)


@page(roles.OPERATOR, ASKS)
def reset(request: HttpRequest, tier: str) -> HttpResponse:
    """Makes a tier of all deployments be as built in again."""
    row = tiers_in_force.common_one(tier)

    def do(values: Values) -> HttpResponse:
        services.delete(actor=actor(request), name=tier, expected_version=seen(values))
        back = rule_undo.gone("tier", tier, row.values(), name=tier) if row.version else []
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
    row = tiers_in_force.own(deployment, tier)

    def do(values: Values) -> HttpResponse:
        services.delete(actor=actor(request), name=tier, deployment=deployment, expected_version=seen(values))
        back = rule_undo.gone("tier", f"{deployment}/{tier}", row.values(), name=tier, deployment=deployment)
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


def _edit(request: HttpRequest, shown: TierInForce, url: str, deployment: str = "") -> HttpResponse:
    version = shown.version
    before = shown.values() if version else None

    def do(values: Values) -> HttpResponse:
        return _apply(request, values, seen(values), address=(shown.name, deployment), before=before, url=url)

    def build(values: Values) -> Dialog:
        path = f"deployments/{deployment}/tiers/{shown.name}/" if deployment else f"tiers/{shown.name}/"
        where = _("It holds for %(name)s alone.") % {"name": deployment} if deployment else _everywhere()
        return Dialog(
            _("Edit tier %(tier)s") % {"tier": traffic_words.tier(shown.name)},
            _("Save"),
            [where],
            amounts.fields(_amounts(), values, shown.values()),
            rest.call("PUT", path, amounts.told(_amounts(), values, shown.values()), version=version),
            back=url,
            version=version,
        )

    return ask(request, build, do)


def _apply(
    request: HttpRequest, values: Values, expected: int | None, *, address: tuple[str, str], before: Any, url: str,
    new: bool = False,
) -> HttpResponse:  # fmt: skip
    tier, deployment = address
    wish = TierWish(**amounts.read(_amounts(new=new), values))
    applied = services.apply(
        actor=actor(request), name=tier, deployment=deployment, wish=wish, expected_version=expected
    )
    name = f"{deployment}/{tier}" if deployment else tier
    back = rule_undo.back("tier", name, applied, before, name=tier, deployment=deployment)
    return done(request, url, _("Saved. Gateways follow within seconds."), back)


def _inherited_share(deployment: str, tier: str) -> float:
    """The share that the tier would get in a deployment, which may not be chosen yet."""
    tiers = tiers_in_force.inherited(deployment) if deployment else tiers_in_force.common()
    return next(one.kv_share for one in tiers if one.name == tier)


def _page_of(deployment: str) -> str:
    return reverse("deployment-traffic", args=[deployment])


def _everywhere() -> str:
    return _("It holds for every deployment that has no rules of its own for this tier.")


def _columns() -> list[Column]:
    return [
        Column(_("Weight"), "weight", "num"),
        Column(_("Queue"), "queue_most", "num", _("requests")),
        Column(_("Queue memory"), "queue_most_bytes", "num at-l", "MiB"),
        Column(_("Longest wait"), "longest_wait_s", "num", "s"),
        Column(_("Total limit"), "total_base_s", "num at-l", "s"),
        Column(_("Limit a token"), "total_per_token_s", "num at-l", "s"),
        Column(_("KV share"), "kv_share", "num", "%"),
        Column(_("Actions"), "", "quiet"),
    ]


def _amounts(*, new: bool = False) -> list[Amount]:
    weight = _("While several tiers wait they share seats by this: 8 gets twice what 4 gets.")
    wait = _("Then a request is refused; sooner where the deployment's target of the first token asks for it.")
    token = _("30 s and 0.25 s a token: a request of 1,000 tokens may take 280 s.")
    share = _("The most of a replica's KV tokens that this tier may hold: 80 keeps 20 for the others.")
    if new:
        share = _(
            "The most of a replica's KV tokens that this tier may hold. Empty = as its pool or all deployments say."
        )
    queue = _(
        "Requests that may wait in one gateway. One more is refused, or takes the place of one whose tenant has more "
        "waiting. For example 256."
    )
    return [
        Amount("weight", _("Weight"), "", weight, 0, 1000, above=True),
        Amount("queue_most", _("Requests that may wait"), "", queue, whole=True),
        Amount("queue_most_bytes", _("Their bytes together"), "MiB", _("For example 64."), 0, 2**20, MIB, whole=True),
        Amount("longest_wait_s", _("Longest wait for a seat"), "s", wait, 0, _DAY_S),
        Amount("total_base_s", _("A whole request may take"), "s", token, 0, _DAY_S),
        Amount("total_per_token_s", _("And for each of its tokens"), "s", "", 0, _DAY_S),
        Amount("kv_share", _("Share of the KV cache"), "%", share, 0, 100, PERCENT, above=True, optional=new),
    ]
