"""The database of an installation: made when it is missing, brought to the newest schema, filled the first time."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controlplane.embedded import postgres
from controlplane.embedded.layout import Layout
from controlplane.embedded.problems import LauncherError, last_words
from controlplane.embedded.quiet_run import run_saying
from controlplane.embedded.settings import FIRST_PASSWORD, LaunchSettings, write_private

MANAGE = "manage.py: The database does not answer: "  # how manage.py begins


def ensure_database(layout: Layout) -> None:
    """Makes the database in the embedded server unless it is there."""
    import psycopg

    try:
        with psycopg.connect(postgres.url(layout.sockets, "postgres"), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [postgres.USER]).fetchone()
            if known is None:
                connection.execute(f"CREATE DATABASE {postgres.USER}")  # a constant of ours
    except psycopg.Error as error:
        raise LauncherError(f"PostgreSQL did not make the database: {str(error).splitlines()[0]}") from error


def migrate(layout: Layout, environ: Mapping[str, str]) -> None:
    """Brings the schema up to date."""
    run_saying(
        [str(layout.control_python), "manage.py", "migrate", "--noinput"], "preparing the database",
        layout.logs / "migrate.log", cwd=layout.root, environ=environ, explain=explain_database_failure,
    )  # fmt: skip


def collect_pages(layout: Layout, environ: Mapping[str, str]) -> None:
    """Copies scripts and styles to the data folder, so that a changed checkout does not change a running console."""
    run_saying(
        [str(layout.control_python), "manage.py", "collectstatic", "--noinput", "--clear", "--verbosity", "0"],
        "collecting the console's files", layout.logs / "collectstatic.log", cwd=layout.root, environ=environ,
        explain=explain_database_failure,
    )  # fmt: skip


def explain_database_failure(output: str) -> str:
    """Returns one sentence for a failed `migrate`."""
    output = output.replace(MANAGE, "")
    if "connection failed" in output or "could not connect" in output or "Connection refused" in output:
        return f"The database does not answer: {last_words(output)} Check DATABASE_URL."
    if "password authentication failed" in output:
        return "The database refuses the user or the password in DATABASE_URL."
    if "No space left on device" in output:
        return "The disk is full; the database can't be prepared. Free some space and run make up again."
    return f"The database could not be prepared: {output.strip().splitlines()[-1] if output.strip() else 'no output'}"


def bootstrap(layout: Layout, settings: LaunchSettings, environ: Mapping[str, str]) -> dict[str, Any]:
    """Makes the administrator, tenant, keys and deployment of a new installation and returns first-run.json's content.

    The secrets are shown only by the run that makes them. They are written before anything else happens, and a file
    that is there keeps what it knows.
    """
    made = _run_bootstrap(layout, environ)
    known = read_first_run(layout.first_run)
    shown = {
        "console_url": settings.console_url,
        "username": made["username"],
        "password": made["password"] or known.get("password"),
        "api_token": made["api_token"] or known.get("api_token"),
        "gateway_url": settings.gateway_url,
        "gateway_key": made["gateway_key"] or known.get("gateway_key"),
        "model": made["model"] or known.get("model"),
    }
    write_private(layout.first_run, json.dumps(shown, indent=2) + "\n")
    return shown


def _run_bootstrap(layout: Layout, environ: Mapping[str, str]) -> dict[str, Any]:
    first_password = {name: os.environ[name] for name in FIRST_PASSWORD if name in os.environ}
    # not through a log file: the output holds secrets
    done = subprocess.run(
        [str(layout.control_python), "manage.py", "bootstrap", "--json"],
        cwd=layout.root, env={**environ, **first_password}, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode != 0:
        raise LauncherError(f"The first administrator and deployment could not be made: {last_words(done.stderr)}")
    try:
        made = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise LauncherError("manage.py bootstrap did not answer with JSON; run it by hand to see why.") from None
    return {name: made.get(name) for name in ("username", "password", "api_token", "gateway_key", "model")}


def read_first_run(path: Path) -> dict[str, Any]:
    """Returns the content of first-run.json, empty when it is not there or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
