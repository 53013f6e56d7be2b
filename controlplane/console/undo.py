"""Undo: a signed note of the counter-actions. Whoever did something may take it back within half a minute.

Guarantees
    A note is good for one person and `SECONDS`; each counter-action names the version that the action left behind, so
    it never overwrites what somebody else has changed since.
Does not do
    Keep anything: the note travels with the message and comes back with the button.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from django.core import signing
from django.utils.translation import gettext as _

from controlplane.accounts.models import User
from controlplane.domain.errors import RefusedError

SECONDS = 30
_GRACE_S = 5  # the page and the answer take their time
_SALT = "headworks.undo"


@dataclass(frozen=True, slots=True)
class Back:
    """One counter-action: `kind` is a name of `views.undo`, `values` what the object was before.

    `version` is the one that the action has made; None where the object has none.
    """

    kind: str
    name: str
    version: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


def note(user: User, *steps: Back) -> str:
    """Returns the text that `read` takes; "" when there is nothing to take back."""
    content = {"user": user.pk, "steps": [asdict(step) for step in steps]}
    return signing.dumps(content, salt=_SALT, compress=True) if steps else ""


def read(user: User, text: str) -> Sequence[Back]:
    """Returns the counter-actions; refuses a note that is too old, of somebody else, or not ours."""
    return _read(user, text, SECONDS + _GRACE_S)


def is_fresh(user: User, text: str) -> bool:
    """Returns whether the button is still worth showing."""
    try:
        return bool(_read(user, text, SECONDS))
    except RefusedError:
        return False


def _read(user: User, text: str, max_age: int) -> Sequence[Back]:
    try:
        content = signing.loads(text, salt=_SALT, max_age=max_age)
    except signing.SignatureExpired:
        hint = _("Change it by hand; the journal says what it was before.")
        raise RefusedError("undo_too_late", _("It is too late to undo this."), kind="conflict", hint=hint) from None
    except signing.BadSignature:
        content = {}
    if content.get("user") != user.pk:
        raise RefusedError("undo_unknown", _("There is nothing to undo here."), kind="not_found")
    return [Back(**step) for step in content["steps"]]
