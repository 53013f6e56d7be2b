"""The live page over a real gateway and a simulated engine: it follows by itself and says when nobody speaks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from controlplane.lib import gateway_state, valkey
from tests.console.conftest import ROOT, Site
from tests.console.looking import overflow, violations
from tests.console.test_browser_live import until
from tests.engine_adapters.running import KEY as ENGINE_KEY
from tests.engine_adapters.running import free_port, start_simulated, wait_for
from tests.gateway.conftest import KEY, make_deployment, make_snapshot, write_snapshot

pytestmark = [pytest.mark.browser, pytest.mark.services]
NAME = "llama-70b"


@contextmanager
def gateway(folder: Path, engine_url: str) -> Iterator[str]:
    """A gateway process with one seat on one replica."""
    made = make_deployment(engine_url, name=NAME, model="test-model")
    only = tuple(replace(one, key=ENGINE_KEY, max_num_seqs=1, kv_capacity_tokens=8192) for one in made.replicas)
    write_snapshot(folder, make_snapshot(replace(made, replicas=only)))
    port = free_port()
    environment = {
        **os.environ, "HEADWORKS_HOME": str(folder), "HEADWORKS_BIND": "127.0.0.1", "HEADWORKS_GATEWAY_PORT": str(port),
    }  # fmt: skip
    process = subprocess.Popen([sys.executable, "-m", "controlplane.gateway"], cwd=ROOT, env=environment)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def ask(url: str) -> None:
    body = b'{"model": "%s", "prompt": "rivers", "max_tokens": 40}' % NAME.encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    with suppress(HTTPError):  # refused: that is shown too
        urlopen(Request(f"{url}/v1/completions", body, headers), timeout=60).close()


def is_heard() -> bool:
    return bool(gateway_state.read(valkey.connect()))


def cell(label: str, row: str) -> str:
    """JavaScript: the text of a cell of the queue's table."""
    rows = "[...document.querySelectorAll('[aria-labelledby=queues-title] tbody tr')]"
    return f"{rows}.find(one => one.textContent.includes('{row}')).querySelector('[data-label=\"{label}\"]').innerText"


def test_the_page_follows_a_gateway_by_itself_and_says_when_it_is_gone(site: Site, tmp_path: Path) -> None:
    with ExitStack() as stack:
        engine = start_simulated(tmp_path, bandwidth_gb_per_s=400.0)  # 40 ms a token
        stack.callback(engine.close)
        url = stack.enter_context(gateway(tmp_path, f"http://127.0.0.1:{engine.place.port}"))
        wait_for(is_heard, 20)
        page = site.page()
        page.goto(f"{site.url}/gateway/?deployment={NAME}")
        assert "Serving" in page.inner_text("main")
        threads = [threading.Thread(target=ask, args=(url,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(page, f"{cell('Waiting', 'Standard')}.startsWith('3')")
        assert "acme" in page.inner_text("[aria-labelledby=waits-title] tbody")
        assert "1 / 1" in page.inner_text("[aria-labelledby=seats-title] tbody").replace("\n", " ")
        assert violations(page) == [] and overflow(page) <= 0
        for thread in threads:
            thread.join()
        until(page, f"{cell('Waiting', 'Standard')}.startsWith('0')")
        until(page, "document.querySelector('[data-value=admitted_per_s]').textContent !== '–'")
    until(page, "document.querySelector('main').innerText.includes('No gateway is heard')")
