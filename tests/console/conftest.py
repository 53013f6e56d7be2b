"""A real console (uvicorn on the test database) and a real browser for the tests marked `browser`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import Client

from tests.console import making
from tests.plugin import start_valkey

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
NOT_OURS = ("the server responded with a status of 4",)  # Chromium's own line for a page that answers 403 or 404


@dataclass
class Site:
    """A running console and a logged-in browser."""

    url: str
    browser: Any
    cookie: str
    contexts: list[Any] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def page(self, width: int = 1440, theme: str = "light", *, cookie: bool = True, **options: Any) -> Any:
        """A new page; whatever its console complains about is kept in `complaints`."""
        height = 900 if width > 500 else 844
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme, **options)
        self.contexts.append(context)
        if cookie:
            context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": self.cookie, "url": self.url}])
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda message: self._complain(message.type, message.text))
        page.on("pageerror", lambda error: self._complain("error", str(error)))
        return page

    def _complain(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(known in text for known in NOT_OURS):
            self.complaints.append(text)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser for one file of tests: while it is there a loop runs in this thread, where others start theirs."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no {CHROMIUM}; install Debian's package chromium")
    if not (ROOT / "static" / "vendor" / "htmx" / "htmx.min.js").exists():
        pytest.skip("no static/vendor; run `npm ci` and `python -m controlplane.embedded.browser`")
    # Playwright's synchronous interface runs a loop in this thread, which Django would take for an async view
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="session")
def console_url(django_db_setup: None) -> Iterator[str]:
    """The address of a console on the test database, without DEBUG."""
    start_valkey()
    call_command("collectstatic", "--noinput", "--clear", verbosity=0)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = start_console(port)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(20)
    end_other_sessions()


def end_other_sessions() -> None:
    """Ends what PostgreSQL still has of a console that is gone: the test database can't be dropped before."""
    database = connection.settings_dict
    own = connection.connection.info.backend_pid if connection.connection else 0
    address = {"dbname": "postgres", "host": database["HOST"], "user": database["USER"]}
    with psycopg.connect(**address, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s AND pid <> %s",
            (database["NAME"], own),
        )


def start_console(port: int) -> subprocess.Popen[bytes]:
    """Starts a console on the test database and waits until it answers."""
    database = connection.settings_dict
    environment = {
        **os.environ,
        "DATABASE_URL": f"postgresql:///{database['NAME']}?host={database['HOST']}&user={database['USER']}",
        "HEADWORKS_DEBUG": "0",
        "HEADWORKS_SECRET_KEY": settings.SECRET_KEY,
        "HEADWORKS_ALLOWED_HOSTS": "127.0.0.1",
    }
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "controlplane.asgi:application",
        "--port",
        str(port),
        "--log-level",
        "warning",
    ]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while True:
        try:
            urlopen(f"http://127.0.0.1:{port}/login/", timeout=5).close()
            return process
        except OSError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise
            time.sleep(0.2)


@pytest.fixture
def site(transactional_db: None, valkey_server: str, console_url: str, chromium: Any) -> Iterator[Site]:
    """The seeded console, logged in as an administrator. Nothing may complain in the browser's console."""
    making.make_fleet()
    client = Client()
    client.login(username="ada", password=making.PASSWORD)
    found = Site(console_url, chromium, client.cookies[settings.SESSION_COOKIE_NAME].value)
    yield found
    for context in found.contexts:
        context.close()
    assert found.complaints == []
