"""People: made, changed and removed. There is always an active administrator left."""

from __future__ import annotations

import math
from dataclasses import dataclass

from django.contrib.auth.hashers import make_password
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from controlplane.accounts import names
from controlplane.accounts.models import Role, User
from controlplane.accounts.services import login
from controlplane.domain.errors import RefusedError
from controlplane.journal.services import record, versioned
from controlplane.journal.services.record import Actor
from controlplane.journal.services.versioned import Applied


@dataclass(frozen=True, slots=True)
class UserWish:
    """What a user shall be. `password` None keeps the stored one; a new user needs one."""

    role: str = Role.VIEWER.value
    email: str = ""
    is_active: bool = True
    password: str | None = None


@transaction.atomic
def apply(*, actor: Actor, username: str, wish: UserWish, expected_version: int | None = None) -> Applied[User]:
    """Makes a user be as given; the same again changes nothing. A new password ends the user's sessions."""
    names.check_username(username)
    names.check_role(wish.role)
    names.check_email(wish.email)
    administrators = _locked_administrators()
    existing = User.objects.select_for_update().filter(username=username).first()
    version = 0 if existing is None else existing.version
    versioned.check(object_kind="user", object_id=username, version=version, expected_version=expected_version)
    values: dict[str, object] = {"role": wish.role, "email": wish.email, "is_active": wish.is_active}
    if existing is None or (wish.password is not None and not existing.check_password(wish.password)):
        values["password"] = _hashed(wish.password, User(username=username, email=wish.email))
    if existing is not None and not (wish.is_active and wish.role == Role.ADMINISTRATOR):
        _keep_one(administrators, existing)
    applied = versioned.apply(
        User.objects.all(),
        address={"username": username},
        values=values,
        object_kind="user",
        object_id=username,
        expected_version=expected_version,
    )
    if applied.changed:
        _tell(actor, applied)
    return applied


def create(*, actor: Actor, username: str, password: str, role: str = Role.VIEWER.value, email: str = "") -> User:
    """Makes a user; refuses (`changed_meanwhile`) when the name is taken."""
    wish = UserWish(role=role, email=email, password=password)
    return apply(actor=actor, username=username, wish=wish, expected_version=0).row


def change_own_password(*, actor: Actor, username: str, current: str, new: str) -> User:
    """Lets a person change their own password; refuses when `current` is not it, and slows down who guesses it in a
    session that was left open."""
    place, now = f"the own password of {username}", timezone.now()
    wait = login.wait(username=username, address=place, now=now)
    if wait:
        sentence = f"Too many failed attempts. Try again in {math.ceil(wait.total_seconds())} s."
        raise RefusedError("invalid", sentence, fields={"current": sentence})
    user = _change_password(actor, username, current, new)
    if user is None:  # counted outside of the transaction that a refusal undoes
        login.failed(username=username, address=place, now=now)
        sentence = "The current password is not right."
        raise RefusedError("invalid", sentence, fields={"current": sentence})
    login.succeeded(username=username, address=place)
    return user


@transaction.atomic
def _change_password(actor: Actor, username: str, current: str, new: str) -> User | None:
    user = _locked(username)
    if not user.check_password(current):
        return None
    user.password = _hashed(new, user, field="new")
    user.version += 1
    user.save(update_fields=["password", "version"])
    _event(actor, username, "user.password_changed", f"{username} has a new password.")
    return user


@transaction.atomic
def delete(*, actor: Actor, username: str, expected_version: int | None = None) -> None:
    """Removes a user with their tokens; refuses for the last active administrator."""
    administrators = _locked_administrators()
    user = _locked(username)
    versioned.check(object_kind="user", object_id=username, version=user.version, expected_version=expected_version)
    _keep_one(administrators, user)
    user.delete()
    _event(actor, username, "user.deleted", f"User {username} was removed with their tokens.", "warning")


def _locked(username: str) -> User:
    user = User.objects.select_for_update().filter(username=username).first()
    if user is None:
        raise RefusedError("no_such_user", f"There is no user {username}.", kind="not_found")
    return user


def _locked_administrators() -> set[int]:
    """Locks the active administrators, in one order and before anybody else, so that two of them who remove each
    other neither both win nor wait for each other for ever."""
    active = User.objects.select_for_update().filter(role=Role.ADMINISTRATOR, is_active=True).order_by("pk")
    return {user.pk for user in active}


def _keep_one(administrators: set[int], leaving: User) -> None:
    if administrators == {leaving.pk}:
        message = f"{leaving.username} is the last active administrator."
        raise RefusedError(
            "last_administrator", message, kind="conflict", hint="Make somebody else an administrator first."
        )


def _hashed(password: str | None, user: User, field: str = "password") -> str:
    if not password:
        raise RefusedError("invalid", "A new user needs a password.", fields={field: "Give a password."})
    try:
        validate_password(password, user)
    except ValidationError as error:
        sentence = " ".join(error.messages)
        raise RefusedError("invalid", sentence, fields={field: sentence}) from None
    return make_password(password)


def _tell(actor: Actor, applied: Applied[User]) -> None:
    username = applied.row.username
    if applied.created:
        _event(actor, username, "user.created", f"User {username} was made with the role {applied.row.role}.")
        return
    what = ", ".join(applied.fields)
    _event(actor, username, "user.changed", f"User {username} was changed: {what}.")


def _event(actor: Actor, username: str, verb: str, message: str, level: str = "info") -> None:
    record.event(
        actor=actor,
        verb=verb,
        object_kind="user",
        object_id=username,
        object_name=username,
        message=message,
        level=level,
    )
