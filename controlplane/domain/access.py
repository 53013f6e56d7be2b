"""What needs which role, where several doors (REST, pages, sockets) lead to the same thing."""

from __future__ import annotations

from typing import Literal

RoleName = Literal["viewer", "operator", "administrator"]

# engines print what they were asked: logs and their last lines are for those who may look into a failure
LOGS: RoleName = "operator"

# what happened to users, tokens and keys, and the kinds of objects that these are
ACCOUNT_EVENTS: RoleName = "administrator"
ACCOUNT_KINDS = frozenset({"user", "token", "api_key"})
