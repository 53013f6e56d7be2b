"""Which machine a node worker runs on, and the how-manieth start this is.

The name of a node is given by people and may be given twice. So each report also says from which machine it comes: a
random number in the node's folder together with the running boot, so that neither a copied disk nor a second container
on one host is taken for the same machine.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace
from pathlib import Path

from controlplane.lib import ids, wire
from workers.node import processes, records

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What stands in the node's folder."""

    random: str
    starts: int


@dataclass(frozen=True, slots=True)
class Identity:
    """`starts` grows with each start of a supervisor of this machine."""

    machine: str
    starts: int


def begin(folder: Path) -> Identity:
    """Counts a start and returns who we are. A file that can't be read or written makes us a new machine, which the
    controller accepts once the old one has been silent for a while."""
    path = folder / "identity.json"
    kept = _read(path)
    kept = replace(kept, starts=kept.starts + 1)
    try:
        records.write_private(path, wire.encode(kept))
    except OSError as error:
        logger.warning("%s can't be written: %s", path, error)
    return Identity(hashlib.sha256(f"{kept.random} {processes.boot()}".encode()).hexdigest()[:16], kept.starts)


def _read(path: Path) -> _Kept:
    try:
        return wire.decode(path.read_bytes(), _Kept)
    except FileNotFoundError:
        pass
    except (OSError, wire.WireError) as error:
        logger.warning("%s can't be read and is made anew: %s", path, error)
    return _Kept(ids.new_id(), 0)
