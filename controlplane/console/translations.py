"""Compiles the message catalogues at start, because compiled ones are not kept in the repository."""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

import polib

log = logging.getLogger(__name__)


def compile_stale(locale: Path) -> list[Path]:
    """Writes each `.mo` that is missing or older than its `.po` and returns them; a read-only folder is left alone."""
    written: list[Path] = []
    for source in sorted(locale.glob("*/LC_MESSAGES/*.po")):
        target = source.with_suffix(".mo")
        if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
            continue
        try:
            descriptor, scratch = tempfile.mkstemp(dir=target.parent, suffix=".new")
            with os.fdopen(descriptor, "wb") as file:
                file.write(polib.pofile(str(source)).to_binary())
            Path(scratch).chmod(0o644)
            # several processes may start at once; a rename never shows half a file
            Path(scratch).replace(target)
        except OSError as error:
            log.warning("The catalogue %s can't be compiled (%s); its language shows English.", source, error.strerror)
            continue
        written.append(target)
    return written
