from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.embedded import up
from controlplane.embedded.layout import ROOT, Layout

QUESTION = '"messages": [{"role": "user", "content": "What is the capital of France?"}]'
BODY = f'{{"model": "smollm2", "temperature": 0, {QUESTION}}}'


def test_the_readme_and_make_up_show_the_same_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first_run = {"console_url": "http://c", "gateway_url": "http://g", "username": "admin", "model": "smollm2"}
    up.say_ready(Layout(ROOT, tmp_path, tmp_path), first_run, "", detached=False)
    assert BODY in capsys.readouterr().out
    assert BODY in (ROOT / "README.md").read_text()
