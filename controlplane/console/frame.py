"""The frame of every page: navigation, preferences of this browser, strings for the scripts."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from controlplane.accounts import roles
from controlplane.accounts.models import User
from controlplane.domain.access import LOGS
from controlplane.version import VERSION

THEMES = ("system", "light", "dark")


@dataclass(frozen=True, slots=True)
class NavItem:
    """An entry of the rail. `rest` = in the menu "More" of the bottom bar."""

    label: str
    icon: str
    url: str
    current: bool
    rest: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """What the frame shows. Preferences come from cookies that the scripts set, so nothing flashes at load."""

    theme: str
    rail: str
    utc: bool
    language: str
    languages: list[tuple[str, str]]
    nav: list[NavItem]
    may_operate: bool
    may_administer: bool
    may_see_logs: bool
    user: User | None
    version: str
    strings: dict[str, str]


def of(request: HttpRequest) -> Frame:
    """Returns the frame for who asks."""
    user = request.user if isinstance(request.user, User) else None
    theme = request.COOKIES.get("headworks_theme", "system")
    return Frame(
        theme=theme if theme in THEMES else "system",
        rail="narrow" if request.COOKIES.get("headworks_rail") == "narrow" else "wide",
        utc=request.COOKIES.get("headworks_utc") == "1",
        language=get_language() or "en",
        languages=list(settings.LANGUAGES),
        nav=_nav(request, user) if user else [],
        may_operate=user is not None and user.has_role(roles.OPERATOR),
        may_administer=user is not None and user.has_role(roles.ADMINISTRATOR),
        may_see_logs=user is not None and user.has_role(LOGS),
        user=user,
        version=VERSION,
        strings=strings(),
    )


def _nav(request: HttpRequest, user: User) -> list[NavItem]:
    entries = [
        (_("Overview"), "overview", reverse("overview"), False),
        (_("Deployments"), "deployments", reverse("deployments"), False),
        (_("Nodes"), "nodes", reverse("nodes"), False),
        (_("Models"), "models", reverse("models"), False),
        (_("Planner"), "planner", reverse("planner"), True),
        (_("Traffic"), "gateway", reverse("gateway"), True),
        (_("Pools"), "pools", reverse("pools"), True),
        (_("Journal"), "journal", reverse("journal"), True),
        (_("Access"), "access", reverse("access"), True),
    ]
    path = request.path
    found = []
    for label, icon, url, rest in entries:
        prefix = reverse("access") if icon == "access" else url
        current = path == url if icon == "overview" else path.startswith(prefix)
        if icon == "deployments" and path.startswith("/replicas/"):
            current = True
        if icon == "gateway" and path.startswith("/traffic/"):
            current = True
        found.append(NavItem(label, icon, url, current, rest))
    return found


def object_url(kind: str, object_id: str) -> str:
    """Returns where an object of the journal has its page; "" when it has none.

    The journal outlives its objects and what names they could have, so an address that fits no page is no error.
    """
    lists = {
        "tenant": "tenants", "api_key": "keys", "user": "users", "token": "tokens", "pool": "pools", "key_tier": "keys",
        "tier": "tiers", "quota": "quotas", "share": "shares", "price": "prices", "ladder": "ladders",
        "gateway": "gateway",
    }  # fmt: skip
    if kind in lists:
        return reverse(lists[kind])
    pages = {
        "slo": "deployment-traffic",
        "deployment": "deployment",
        "replica": "replica",
        "node": "node",
        "model": "model",
        "variant": "model",
    }
    address = object_id.partition("/")[0] if pages.get(kind) == "model" else object_id
    if kind not in pages or not address:
        return ""
    try:
        return reverse(pages[kind], args=[address])
    except NoReverseMatch:
        return ""


def strings() -> dict[str, str]:
    """Returns what the scripts say, in the reader's language."""
    return {
        "s": _("s"),
        "min": _("min"),
        "h": _("h"),
        "d": _("d"),
        "now": _("now"),
        "ago": _("%(time)s ago"),
        "in": _("in %(time)s"),
        "copied": _("Copied"),
        "no_data": _("No data"),
        "live": _("Live"),
        "paused": _("Paused"),
        "connecting": _("Connecting"),
        "connection_lost": _("Live connection lost. Trying again; values are read every 5 s."),
        "connection_back": _("Live connection is back."),
        "live_away": _("Live values are away: Valkey can't be reached. Trying again; what is shown may be old."),
        "live_full": _("This page shows more live values than one connection takes; some stand still."),
        "logged_out": _("You are logged out; nothing here is live any more."),
        "time_utc": _("Time, UTC"),
        "time_local": _("Time, local"),
        "failed": _("The console could not do that (%(code)s). Try again; if it stays, look into the console's log."),
        "offline": _("The console can't be reached. Check the connection and try again."),
        "chart_text": _("%(title)s: now %(now)s, between %(low)s and %(high)s in the window shown."),
        "chart_none": _("%(title)s: no data in the window shown."),
        "lines": _("%(count)s lines"),
        "matches": _("%(count)s matches"),
        "selected": _("%(count)s selected"),
        "thinking": _("Waiting for the first token"),
        "try_done": _("%(tokens)s tokens, first after %(ttft)s, %(rate)s tok/s"),
        "try_stopped": _("Stopped"),
    }
