from __future__ import annotations

import pytest

from controlplane.embedded import engine_words

WHO = "(APIServer pid=14260) "
ULIMIT = f"{WHO}WARNING 11-30 01:38:50 [system_utils.py:255] Found ulimit of 20000 and failed to automatically increase"
TOLD = f"{WHO}INFO 11-30 01:39:19 [model.py:2152] Using max model len 2048"
SILENT = [
    "=== Headworks: start number 1, 2026-11-30 01:38:31 UTC ===",
    "Triton is installed, but doesn't include CPU backend. Disabling Triton.",
    "/env/vllm/entrypoints/openai/api_server.py:24: DeprecationWarning: `vllm.entrypoints` is deprecated",
    "  warnings.warn(",
    f"{WHO}INFO 11-30 01:38:50 [api_utils.py:347] ",
    f"{WHO}INFO 11-30 01:38:50 [api_utils.py:347]   █▄█▀ █     █     █     █  model   /models/smollm2",
    f"{WHO}INFO 11-30 01:38:50 [api_utils.py:286] non-default args: {{'host': '127.0.0.1', 'port': 20637}}",
    ULIMIT,
    f"{WHO}WARNING 11-30 01:39:19 [cpu.py:224] Triton is not installed. triton-cpu is expected on x86 CPUs.",
    '    wrapper = lookup(vars(value).get("kernel"))',
    "",
]


def test_the_newest_line_is_shown_without_what_stands_before_it() -> None:
    assert engine_words.newest([TOLD]) == "Using max model len 2048"


@pytest.mark.parametrize("line", SILENT)
def test_what_only_looks_like_trouble_is_passed_over(line: str) -> None:
    assert engine_words.newest([TOLD, line]) == "Using max model len 2048"
    assert engine_words.newest([line]) == ""


def test_an_error_is_shown() -> None:
    error = "(EngineCore pid=7) ERROR 11-30 01:39:19 [core.py:90] No room for the KV cache"
    assert engine_words.newest([TOLD, error, ULIMIT]) == "No room for the KV cache"
    assert engine_words.newest(["ValueError: There is no such model"]) == "ValueError: There is no such model"


def test_a_long_line_is_cut_at_a_word() -> None:
    shown = engine_words.newest(["loading " + "weights " * 40])
    assert len(shown) <= engine_words.LONGEST
    assert shown.endswith("weights …")
    assert engine_words.cut_at_a_word("x" * 200) == "x" * 109 + "…"
