"""The npm packages of the console: installed from the lock file and copied to static/vendor."""

from __future__ import annotations

import hashlib

from controlplane.embedded import browser, say
from controlplane.embedded.environments import alone
from controlplane.embedded.layout import Layout
from controlplane.embedded.problems import explain_install_failure
from controlplane.embedded.quiet_run import run_saying

MARKER = ".headworks-complete"
# npm's own patience with an index that does not answer is over a minute without a word
PATIENCE = ("--fetch-retries=3", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=4000")


def ensure(layout: Layout) -> None:
    """Runs `npm ci` when the lock file has changed since the last time, and copies the files."""
    digest = hashlib.sha256((layout.root / "package-lock.json").read_bytes()).hexdigest()
    marker = layout.root / "node_modules" / MARKER
    with alone(layout.root, "installing the console's packages"):
        if marker.exists() and marker.read_text(encoding="utf-8").strip() == digest:
            say.step("Console's packages: up to date")
        else:
            say.step("Console's packages: installing")
            what = "installing the console's npm packages"
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", *PATIENCE]
            run_saying(
                command, what, layout.logs / "install-console.log",
                cwd=layout.root, explain=lambda output: explain_install_failure(output, what),
            )  # fmt: skip
            marker.write_text(digest + "\n", encoding="utf-8")
        browser.copy(layout.root)
