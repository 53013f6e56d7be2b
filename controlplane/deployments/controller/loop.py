"""The controller's loop: hear, take over, decide, publish.

Guarantees
    Only the leader does any of it. PostgreSQL and Valkey may go away and come back at any time: the loop waits with a
    growing pause and goes on by itself; leadership that was lost is sought again.
Concurrency
    One thread. `stop` may be set from a signal handler; the loop then ends within a second and gives up the lead.
"""

from __future__ import annotations

import logging
import threading
import time

import psycopg
import redis
from django.db import DatabaseError, InterfaceError, connection

from controlplane.deployments import selectors
from controlplane.deployments.controller import ingest_nodes, rules
from controlplane.deployments.controller.carry_out import Reconciler
from controlplane.deployments.controller.ingest import Intake
from controlplane.deployments.controller.leadership import Leadership, LostError
from controlplane.deployments.controller.listening import Listener
from controlplane.deployments.controller.publish import Publisher
from controlplane.deployments.controller.times import to_datetime
from controlplane.fleet.services import reservations
from controlplane.journal.services import record
from controlplane.lib import valkey

logger = logging.getLogger(__name__)

WAIT_TO_LEAD_S = 1.0
DECIDE_EVERY_S = 5.0  # even if nobody said that anything changed
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
_AWAY = (DatabaseError, InterfaceError, psycopg.Error, LostError, *valkey.ERRORS)


class Controller:
    """One controller process. `run` blocks until `stop` is set."""

    def __init__(self, client: redis.Redis | None = None) -> None:
        self._client = client or valkey.connect()
        self._leadership = Leadership()
        self._listener = Listener(self._client)
        self._publisher = Publisher(self._leadership, self._client)
        self._intake = Intake()
        self._reconciler = Reconciler()
        self._dirty = True
        self._decided_at = 0.0

    @property
    def leads(self) -> bool:
        """Whether this controller held the lead when it last looked."""
        return self._leadership.leads

    def run(self, stop: threading.Event) -> None:
        """Leads, or waits to lead, until `stop` is set."""
        pause_s = FIRST_PAUSE_S
        while not stop.is_set():
            try:
                if self._lead():
                    self.round(time.time())
                else:
                    stop.wait(WAIT_TO_LEAD_S)
                pause_s = FIRST_PAUSE_S
                continue
            except _AWAY as error:
                logger.warning("%s: %s; trying again in %.1f s", type(error).__name__, str(error).strip(), pause_s)
            except Exception:
                logger.exception("a round of the controller failed; trying again in %.1f s", pause_s)
            self._recover()
            stop.wait(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
        self._leadership.release()
        connection.close()
        logger.info("the controller ends")

    def round(self, now: float) -> None:
        """One round at time `now`: reports that came, decisions that are due, documents that changed."""
        heard = self._listener.read(now)
        now = time.time() if heard else now
        self._dirty |= any(one.changed for one in self._intake.take_over(heard, now))
        self._dirty |= bool(ingest_nodes.mark_lost(now, self._listener.since))
        self._dirty |= bool(reservations.settle(to_datetime(now), selectors.up))
        self._dirty |= self._leadership.was_woken()
        if self._dirty or not 0 <= now - self._decided_at < DECIDE_EVERY_S:
            self._dirty = False  # what changes from here on asks for the next round
            self._dirty = self._reconciler.run(now)
            self._decided_at = now
            self._publisher.run(now)
            rules.do_all(self._client)

    def _lead(self) -> bool:
        if self._leadership.leads:
            return True
        if not self._leadership.try_lead():
            return False
        logger.info("this controller leads")
        self._publisher = Publisher(self._leadership, self._client)
        self._listener.interrupted()
        self._intake.forget()
        self._dirty = True
        record.event(
            actor=ingest_nodes.ACTOR,
            verb="controller.leads",
            object_kind="system",
            object_id="controller",
            object_name="controller",
            message="A controller took the lead.",
        )
        return True

    def _recover(self) -> None:
        """After an error nothing is taken for granted: new connections, a fresh look at everything."""
        self._listener.interrupted()
        self._intake.forget()
        self._dirty = True
        connection.close()
