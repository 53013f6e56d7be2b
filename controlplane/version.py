"""The version of Headworks, read from CHANGELOG.md, which is its only place."""

from __future__ import annotations

import re
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def read_version(changelog: str) -> str:
    """Returns the newest version number of a changelog (its first `## x.y.z`); raises ValueError when there is none."""
    found = re.search(r"^## (\d+\.\d+\.\d+)", changelog, flags=re.MULTILINE)
    if found is None:
        raise ValueError("CHANGELOG.md has no line such as `## 1.2.3`.")
    return found.group(1)


VERSION = read_version(CHANGELOG.read_text(encoding="utf-8"))
