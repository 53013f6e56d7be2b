"""Tasks of a node's queue. A message is a hint: what counts is the desired document."""

from __future__ import annotations

from workers.node.app import app, running


@app.task(name="node.wake")
def wake() -> None:
    """Has the supervisor look at its document now and report."""
    if running.supervisor is not None:
        running.supervisor.wake()
