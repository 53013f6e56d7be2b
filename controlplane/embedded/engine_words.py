"""What an engine's log says in one line to somebody who waits: its newest line that tells how far it is.

Engines write much that looks like trouble and is none: warnings, a logo, the arguments they were given. None of that
is shown. What they call an error is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST = 110
# vLLM's lines: "(APIServer pid=14260) INFO 11-30 01:38:50 [model.py:733] Resolved architecture: …"
_WHO = re.compile(r"^(?:\(\w[\w .=-]*\) ?)+")
_HEAD = re.compile(r"^(DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d-]+ [\d:.,]+ \[[^\]]*\] ?")
_QUIET_LEVELS = ("DEBUG", "WARNING")
_NOT_TOLD = re.compile(
    r"\w*Warning: |^=== Headworks: |^non-default args: |^Triton is (?:not )?installed|[▀▄█]{2}|[▀▄█] +[▀▄█]"
)
_LETTERS = re.compile(r"[^\W\d_]{2}")


def newest(lines: Iterable[str]) -> str:
    """Returns the newest of these lines that says something, without what stands before it; empty when none does."""
    for line in reversed(list(lines)):
        text = _told(line)
        if text:
            return cut_at_a_word(text)
    return ""


def _told(line: str) -> str:
    text = _WHO.sub("", line.rstrip())
    head = _HEAD.match(text)
    if head and head[1] in _QUIET_LEVELS:
        return ""
    text = text[head.end() :] if head else text
    # what is indented goes on from a line before: of a traceback, of a warning, of a table
    if text[:1].isspace() or _NOT_TOLD.search(text) or not _LETTERS.search(text):
        return ""
    return text


def cut_at_a_word(text: str, longest: int = LONGEST) -> str:
    """Returns the text, or as many of its words as fit and an ellipsis."""
    if len(text) <= longest:
        return text
    words, _, rest = text[: longest - 1].rpartition(" ")
    return f"{words or rest} …" if words else f"{rest}…"
