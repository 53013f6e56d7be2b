"""The tier of a key's requests."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from controlplane.accounts import roles
from controlplane.console import rest, rule_undo, traffic_words
from controlplane.console.dialogs import Dialog, Field, Values, ask, seen
from controlplane.console.guard import ASKS, actor, page
from controlplane.console.views.traffic.common import done
from controlplane.traffic import owners, rule_selectors
from controlplane.traffic.services import tiers as services


@page(roles.ADMINISTRATOR, ASKS)
def edit(request: HttpRequest, tenant: str, key_id: int) -> HttpResponse:
    """Says which tier a key's requests belong to."""
    row = rule_selectors.key_tier(tenant, key_id)
    name = row.key.name

    def do(values: Values) -> HttpResponse:
        applied = services.apply_of_key(
            actor=actor(request), tenant=tenant, key_id=key_id, tier=values.get("tier", ""),
            expected_version=seen(values),
        )  # fmt: skip
        back = rule_undo.back("key_tier", name, applied, {"tier": row.tier}, tenant=tenant, key_id=key_id)
        return done(request, reverse("keys"), _("Saved. Gateways follow within seconds."), back)

    def build(values: Values) -> Dialog:
        tier = values.get("tier", row.tier)
        return Dialog(
            _("Tier of key %(name)s") % {"name": name},
            _("Save"),
            [_("All requests with this key belong to the tier; a client can't choose it.")],
            [tier_field(tier)],
            rest.call("PUT", f"tenants/{tenant}/keys/{key_id}/tier/", {"tier": tier}, version=row.version),
            back=reverse("keys"),
            version=row.version,
        )

    return ask(request, build, do)


def tier_field(tier: str) -> Field:
    """Returns the menu of tiers, with what they mean."""
    choices = tuple((one, traffic_words.tier(one)) for one in owners.TIERS)
    help_text = _("Interactive waits least and goes first, batch waits longest and goes last.")
    return Field("tier", _("Tier"), "select", tier, help_text, choices=choices, required=True)
