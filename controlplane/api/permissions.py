"""Which role a request needs. Each view declares it per method; what is not declared is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, cast

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from controlplane.domain.access import LOGS, RoleName

if TYPE_CHECKING:  # DRF reads this module while its views are being imported
    from rest_framework.views import APIView

Roles = Mapping[str, RoleName]  # HTTP method -> role that it needs

READ: Roles = {"GET": "viewer"}
READ_WRITE: Roles = {"GET": "viewer", "PUT": "operator", "POST": "operator", "DELETE": "operator"}
ACT: Roles = {"POST": "operator"}
READ_LOGS: Roles = {"GET": LOGS}


class _HasRole(Protocol):
    def has_role(self, role: str) -> bool: ...


def allows(request: Request, role: RoleName) -> bool:
    """Returns whether a request, whose user is known, may do what `role` may do: both the user and the token."""
    holders = [cast(_HasRole, holder) for holder in (request.user, request.auth) if holder is not None]
    return all(holder.has_role(role) for holder in holders)


class RolePermission(BasePermission):
    """Lets a request pass when its user has the role that the view declares for the method in `roles`.

    A request with a token needs the role twice: of the user and of the token (`request.auth`), so a token never
    allows more than either. A method that the view does not have only needs a known user, and ends as 405.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Returns whether the request may pass."""
        roles = cast("Roles | None", getattr(view, "roles", None))
        if roles is None or not request.user.is_authenticated:
            return False
        method = "GET" if request.method == "HEAD" else str(request.method)
        return allows(request, roles.get(method, "viewer"))
