"""One controller leads: it holds an advisory lock of PostgreSQL, the others wait for it.

Guarantees
    The lock belongs to a database session of its own, so it ends with the process, its connection or the server, and
    never outlives them. Versions of the routing snapshot are drawn through that session: who has lost it can't
    publish anything that a gateway would take for newer.
Concurrency
    One owner, the controller's loop; not thread-safe.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import psycopg
from django.db import connections

from controlplane import dispatch
from controlplane.lib import advisory_locks

logger = logging.getLogger(__name__)

# A leader whose machine vanished shall not keep the lock for the hours of TCP's defaults; ignored on unix sockets.
_SERVER_OPTIONS = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"


class LostError(Exception):
    """This controller does not lead any more."""


class Leadership:
    """Whether this process leads, and the session that says so."""

    def __init__(self) -> None:
        self._session: psycopg.Connection[Any] | None = None
        self._woken = False
        self.leads = False

    def try_lead(self) -> bool:
        """Takes the lock if nobody holds it; returns whether this controller leads. Raises psycopg.Error when the
        database can't be reached."""
        if self.leads:
            return True
        if self._session is None or self._session.closed:
            self._session = _connect()
        row = self._ask("SELECT pg_try_advisory_lock(%s)", advisory_locks.CONTROLLER_LEADER)
        if row:
            self._session.add_notify_handler(self._notice)
            self._session.execute(f"LISTEN {dispatch.CONTROLLER_CHANNEL}")
            self.leads = True
        return self.leads

    def check(self) -> None:
        """Raises LostError unless the session that holds the lock is alive."""
        if not self.leads or self._ask("SELECT 1") != 1:
            raise LostError("this controller does not lead")

    def next_version(self) -> int:
        """Returns a snapshot version that is higher than every earlier one of any leader."""
        return int(self._ask("SELECT nextval('headworks_snapshot_version')"))

    def skip_to(self, version: int) -> None:
        """Makes the next version higher than `version`, which somebody has published from another database."""
        self._ask("SELECT setval('headworks_snapshot_version', %s)", version)

    def was_woken(self) -> bool:
        """Returns whether somebody changed rows that matter since the last call. Raises LostError like `check`, for
        notices are heard only by asking the session something."""
        self.check()
        woken, self._woken = self._woken, False
        return woken

    def _notice(self, notice: psycopg.Notify) -> None:
        self._woken = True

    def release(self) -> None:
        """Gives back the lock and ends the session; another controller may lead at once."""
        session, self._session, self.leads = self._session, None, False
        if session is None:
            return
        # the server would give it back a moment after the session's end; a session that is broken has lost it anyway
        with session, contextlib.suppress(psycopg.Error):
            session.execute("SELECT pg_advisory_unlock_all()")

    def _ask(self, statement: str, *values: Any) -> Any:
        if self._session is None:
            raise LostError("this controller does not lead")
        try:
            row = self._session.execute(statement, values or None).fetchone()
        except psycopg.Error as error:
            led = self.leads
            self.release()
            if led:
                raise LostError(f"the session that held the lock ended: {str(error).strip()}") from error
            raise
        return row[0] if row else None


def _connect() -> psycopg.Connection[Any]:
    parameters = connections["default"].get_connection_params()
    for name in ("pool", "cursor_factory", "server_side_binding"):
        parameters.pop(name, None)
    options = f"{parameters.pop('options', '')} {_SERVER_OPTIONS}".strip()
    return psycopg.connect(
        **parameters,
        options=options,
        autocommit=True,
        application_name="headworks-controller",
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        tcp_user_timeout=15_000,
    )
