"""How the supervisor hears of its desired document: a thread that listens and polls, and never holds up the loop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import redis

from controlplane.domain.desired import DESIRED_SCHEMA, NodeDesired
from controlplane.lib import keys, valkey, wire
from workers.node.companion import Companion

logger = logging.getLogger(__name__)

RETRY_S = 1.0


class DesiredLink:
    """Fetches the node's desired document on each notice and every `poll_s`, and passes on what is readable.

    `deliver` is called in this thread with every document that differs from the one before. A missing document is
    not passed on: it means that nobody has spoken, not that nothing is wanted.
    """

    def __init__(self, node: str, deliver: Callable[[NodeDesired], None], address: str | None = None) -> None:
        self.machine = ""  # which one this is; set before the start
        self._node = node
        self._deliver = deliver
        self._address = address
        self._poll_s = 1.0
        self._last: bytes | None = None
        self._complaint = ""
        self._ending = threading.Event()
        self.companion = Companion("desired", self._run)

    def start(self) -> None:
        """Begins to listen."""
        self.companion.start()

    def stop(self) -> None:
        """Ends; a call that waits for Valkey is given its time-out."""
        self._ending.set()
        self.companion.join(valkey.CONNECT_TIMEOUT_S + valkey.ANSWER_TIMEOUT_S + RETRY_S)

    def _run(self) -> None:
        down = False
        while not self._ending.is_set():
            client = valkey.connect(self._address)
            try:
                down = self._listen(client, down)
            except valkey.ERRORS as error:
                if not down:
                    logger.warning("Valkey can't be reached, engines go on as they are: %s", error)
                down = True
            finally:
                client.close()
            self._ending.wait(RETRY_S)

    def _listen(self, client: redis.Redis, was_down: bool) -> bool:
        with client.pubsub(ignore_subscribe_messages=True) as notices:  # type: ignore[no-untyped-call]
            notices.subscribe(keys.desired_changed(self._node))
            while not self._ending.is_set():
                self._fetch(client)
                if was_down:
                    logger.info("Valkey is reached again")
                    was_down = False
                notices.get_message(timeout=self._poll_s)
        return was_down

    def _fetch(self, client: redis.Redis) -> None:
        data = client.get(keys.desired(self._node))
        if not isinstance(data, bytes) or data == self._last:
            return
        self._last = data
        try:
            document = wire.decode(data, NodeDesired)
        except wire.WireError as error:
            self._complain(f"the desired document can't be read and is ignored: {error}")
            return
        if document.schema > DESIRED_SCHEMA:
            self._complain(
                f"the desired document has schema {document.schema}, newer than {DESIRED_SCHEMA}; update here"
            )
        elif document.node != self._node:
            self._complain(f"the desired document is for node {document.node!r}, not for {self._node!r}")
        elif document.machine not in ("", self.machine):
            self._complain(
                f"another machine is known as node {self._node!r}; this one is taken over once that one is silent."
                " If both run, give one another HEADWORKS_NODE_NAME"
            )
        else:
            self._complaint = ""
            self._poll_s = min(10.0, max(0.1, document.poll_s))
            self._deliver(document)

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            logger.error(text)
        self._complaint = text
