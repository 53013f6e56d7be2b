from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MANAGE = Path(__file__).resolve().parents[2] / "manage.py"
CASE = {"case_id": "a", "model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "max_model_len": 4096}


def estimate(text: bytes, folder: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    """In a folder of its own and without any environment."""
    command = [sys.executable, str(MANAGE), "estimate", *options]
    return subprocess.run(command, input=text, capture_output=True, cwd=folder, env={}, check=False)


def answers(cases: list[Any], folder: Path) -> list[dict[str, Any]]:
    done = estimate(json.dumps(cases).encode(), folder)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_it_answers_without_settings_or_services(tmp_path: Path) -> None:
    (found,) = answers([CASE], tmp_path)
    assert found["case_id"] == "a"
    assert found["fits"] is True


def test_a_bad_case_does_not_stop_the_others(tmp_path: Path) -> None:
    bad, not_a_case, good = answers([{"case_id": 7, "model": "(unnamed)"}, 5, CASE], tmp_path)
    assert bad["case_id"] == 7
    assert bad["error"]["code"] == "unknown_model"
    assert "architecture" in bad["error"]["fields"]
    assert not_a_case["error"]["message"]
    assert good["fits"] is True


@pytest.mark.parametrize(
    "text",
    [b"", b"{}", b"no", b"\xff\xfe", b"[" * 100_000, b"5", b'[{"max_model_len": ' + b"9" * 5000 + b"}]"],
    ids=["nothing", "object", "words", "bytes", "deep", "number", "digits"],
)
def test_what_is_no_list_is_one_sentence_and_status_2(text: bytes, tmp_path: Path) -> None:
    done = estimate(text, tmp_path)
    assert done.returncode == 2
    assert done.stdout == b""
    assert len(done.stderr.strip().splitlines()) == 1
    assert b"JSON list" in done.stderr


def test_speed_is_asked_for_by_an_option(tmp_path: Path) -> None:
    case = {
        "case_id": 1,
        "model": "Qwen/Qwen3-8B",
        "gpu": "H100",
        "input_len": 1000,
        "output_len": 100,
        "concurrency": 8,
    }
    done = estimate(json.dumps([case]).encode(), tmp_path, "--performance")
    (found,) = json.loads(done.stdout)
    assert found["tpot_ms"] > 0


def test_a_large_case_is_no_trouble(tmp_path: Path) -> None:
    (found,) = answers([{**CASE, "notes": "x" * 2_000_000, "more": [{}] * 50_000}], tmp_path)
    assert found["fits"] is True
