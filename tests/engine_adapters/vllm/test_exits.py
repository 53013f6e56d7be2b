from __future__ import annotations

import json
from pathlib import Path
from string import Formatter

import pytest

from engine_adapters.vllm.exits import RULES, explain_exit
from tests.engine_adapters.vllm.test_logs import read_log

RECORDED = Path(__file__).parent / "recorded"


@pytest.mark.parametrize(
    ("file", "code", "part_of_sentence"),
    [
        ("wrong-argument", "wrong_argument", "--no-such-option"),
        ("wrong-value", "wrong_setting", "Unknown quantization method: nonsense"),
        ("model-not-found", "model_not_found", "/no/such/model"),
        ("model-name-offline", "model_not_found", "neither on the node nor on the model hub"),
        ("port-in-use", "port_in_use", "port"),
        ("context-too-long", "context_longer_than_model", "100000"),
        ("kv-too-small", "context_too_long_for_kv", "8192"),
        ("cpu-memory", "cpu_out_of_memory", "64.0 GiB"),
        ("no-guard", "key_missing", "key"),
        ("import-error", "engine_not_installed", "not installed"),
        ("core-killed", "killed", "was killed"),
        ("worker-killed", "killed", "was killed"),
    ],
)
def test_a_recorded_failure_is_explained(file: str, code: str, part_of_sentence: str) -> None:
    found, sentence, hint = explain_exit(read_log(RECORDED / f"{file}.txt"), "exit code 1")
    assert found == code
    assert part_of_sentence in sentence
    assert hint


def test_an_engine_that_dies_on_its_first_token_is_told_from_one_that_never_started(shared_data: Path) -> None:
    log = read_log(shared_data / "engine_logs" / "vllm-0.32.0-cpu-pp2-dies-on-first-token.log")
    code, sentence, hint = explain_exit(log, "exit code 0")
    assert code == "died_on_generation"
    assert "AssertionError" in sentence
    assert "pipeline parallelism" in hint


@pytest.mark.parametrize("start", ["compiled-start", "eager-start"])
def test_a_good_log_blames_nothing(shared_data: Path, start: str) -> None:
    log = read_log(shared_data / "engine_logs" / f"vllm-0.32.0-cpu-{start}.log")
    assert explain_exit(log, "exit code 0")[:2] == ("ended", "The engine ended by itself (exit code 0).")
    assert explain_exit(log, "signal SIGKILL")[0] == "killed"


@pytest.mark.parametrize(
    ("exit_text", "code"),
    [
        ("signal SIGKILL", "killed"),
        ("signal SIGILL", "cpu_instruction_missing"),
        ("signal SIGSEGV", "crashed"),
        ("signal SIGTERM", "terminated"),
        ("exit code 3", "ended"),
    ],
)
def test_an_end_without_a_word_is_told_by_its_signal(exit_text: str, code: str) -> None:
    assert explain_exit([], exit_text)[0] == code


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
            "79.10 GiB of which 1.2 GiB is free.",
            "gpu_out_of_memory",
        ),
        ("RuntimeError: CUDA error: out of memory", "gpu_out_of_memory"),
        ("MemoryError", "cpu_out_of_memory"),
        ("RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried", "cpu_out_of_memory"),
        ("OSError: [Errno 28] No space left on device", "disk_full"),
        ("OSError: some/model is not a local folder and is not a valid model identifier", "model_not_found"),
        ("huggingface_hub.errors.GatedRepoError: 403 Client Error. Cannot access gated repo", "model_access_refused"),
        ("RuntimeError: operator torchvision::nms does not exist", "engine_packages_do_not_fit"),
        ("ImportError: libcudart.so.13: cannot open shared object file", "import_error"),
        ("RuntimeError: NCCL error: unhandled system error", "cards_do_not_reach_each_other"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "gpu_not_usable"),
        ("ValueError: Model architectures ['XForCausalLM'] are not supported for now.", "model_not_supported"),
        ("api_server.py: error: argument --dtype: invalid choice: 'x'", "wrong_argument"),
        ("Illegal instruction (core dumped)", "cpu_instruction_missing"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "(EngineCore_DP0 pid=92) ERROR 10-25 13:08:43 [core.py:708] "])
def test_a_line_is_known_whichever_process_logged_it(prefix: str, line: str, code: str) -> None:
    found, sentence, _ = explain_exit([prefix + line], "exit code 1")
    assert found == code
    assert "{" not in sentence


def test_the_cause_is_named_before_its_consequences() -> None:
    lines = [
        "ERROR 1 2 [core.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "ERROR 1 2 [a.py:1] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
    ]
    assert "2.00 GiB" in explain_exit(lines, "exit code 1")[1]


def test_an_unknown_exception_is_quoted() -> None:
    lines = ["(EngineCore pid=9) ERROR 11-29 19:59:53 [core.py:1] ZeroDivisionError: division by zero"]
    code, sentence, _ = explain_exit(lines, "exit code 1")
    assert (code, sentence) == (
        "failed_to_start",
        "The engine failed while it started: ZeroDivisionError: division by zero.",
    )


def test_every_recorded_memory_failure_is_explained_with_its_numbers(shared_data: Path) -> None:
    cases = json.loads((shared_data / "ledger" / "cases.json").read_text(encoding="utf-8"))
    for case in (case for case in cases if case["error_kind"] == "kv_needed_gt_available"):
        needed, free, most = case["error_needed_gib"], case["error_available_gib"], case["error_estimated_max_len"]
        line = (
            f"ValueError: To serve at least one request with the models's max seq len ({case['max_model_len']}), "
            f"({needed} GiB KV cache is needed, which is larger than the available KV cache memory ({free} GiB). "
            + (f"Based on the available memory, the estimated maximum model length is {most}." if most else "")
        )
        code, sentence, hint = explain_exit([line], "exit code 1")
        assert code == "context_too_long_for_kv"
        assert str(needed) in sentence and str(free) in sentence
        assert most is None or str(most) in hint


def test_every_rule_has_sentence_and_hint_and_a_group_for_each_gap() -> None:
    for rule in RULES:
        gaps = {name for _, name, _, _ in Formatter().parse(rule.sentence + rule.hint) if name}
        assert gaps <= set(rule.pattern.groupindex)
        assert rule.sentence.endswith(".") and rule.hint.endswith(".")
