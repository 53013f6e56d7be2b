"""Health check of a node's container: exits with 0 when the supervisor has written its sign of life lately."""

from __future__ import annotations

import sys
import time

from workers.node import records

FRESH_S = 30.0


def is_alive(now: float) -> bool:
    """Returns whether the file `alive` of this node's folder was touched within `FRESH_S` before `now`."""
    try:
        touched = (records.node_folder(records.node_name()) / "alive").stat().st_mtime
    except OSError:
        return False
    return now - touched < FRESH_S


if __name__ == "__main__":
    sys.exit(0 if is_alive(time.time()) else 1)
