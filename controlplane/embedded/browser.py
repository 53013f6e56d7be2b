"""Files of the console that come from npm: copied from node_modules to static/vendor, where the console serves them.

As a program (`python -m controlplane.embedded.browser`) it copies what `npm ci` has installed.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

FILES: dict[str, tuple[str, ...]] = {
    "htmx": ("htmx.org/dist/htmx.min.js",),
    "uplot": ("uplot/dist/uPlot.iife.min.js", "uplot/dist/uPlot.min.css"),
}


class BrowserFilesError(Exception):
    """The npm packages are not all there; the text says what to do."""


def copy(root: Path) -> list[Path]:
    """Copies the files from `root`/node_modules to `root`/static/vendor and returns where they are."""
    copied: list[Path] = []
    for folder, sources in FILES.items():
        target = root / "static" / "vendor" / folder
        target.mkdir(parents=True, exist_ok=True)
        for name in sources:
            source = root / "node_modules" / name
            if not source.is_file():
                raise BrowserFilesError(f"{source} is missing. Run `npm ci` in {root}.")
            # another process may be serving the old file; a rename never shows half a file
            scratch = target / f".{source.name}.new"
            shutil.copyfile(source, scratch)
            scratch.replace(target / source.name)
            copied.append(target / source.name)
    return copied


if __name__ == "__main__":
    try:
        for path in copy(Path(__file__).resolve().parents[2]):
            print(path)
    except BrowserFilesError as error:
        sys.exit(str(error))
