from __future__ import annotations

import errno

import pytest

from controlplane.embedded.problems import explain_install_failure, in_words

# As pip 23 and npm 10 print them.
NO_CPU_TORCH = """\
ERROR: Could not find a version that satisfies the requirement torch==2.13.0+cpu (from versions: 2.12.0, 2.13.0)
ERROR: No matching distribution found for torch==2.13.0+cpu
"""
NO_NETWORK = """\
WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by \
'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new \
connection: [Errno -3] Temporary failure in name resolution')': /simple/torch/
ERROR: Could not find a version that satisfies the requirement torch==2.13.0+cpu (from versions: none)
ERROR: No matching distribution found for torch==2.13.0+cpu
"""
DISK_FULL = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n"
NO_VERSION = "ERROR: No matching distribution found for vllm==0.32.0\n"
NPM_NETWORK = "npm error code ENOTFOUND\nnpm error network request to https://example.invalid/htmx.org failed\n"
DAMAGED = "npm error code EINTEGRITY\nnpm error sha512-x integrity checksum failed\n"


def test_missing_cpu_torch_says_to_configure_its_index() -> None:
    said = explain_install_failure(NO_CPU_TORCH, "installing the engine's packages")
    assert "torch==2.13.0+cpu" in said
    assert "PyTorch's CPU wheel index" in said
    assert "HEADWORKS_ENGINE_PIP_ARGS" in said


def test_a_dead_network_is_not_mistaken_for_a_missing_package() -> None:
    said = explain_install_failure(NO_NETWORK, "installing the engine's packages")
    assert "a host name could not be resolved" in said
    assert "torch" not in said


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (DISK_FULL, "The disk became full while installing"),
        (NO_VERSION, "pip can't find vllm==0.32.0"),
        (NPM_NETWORK, "a host name could not be resolved"),
        (DAMAGED, "its checksum is wrong"),
        ("ERROR: something new\n", "ERROR: something new"),
        ("", "the program said nothing"),
    ],
)
def test_every_failure_is_one_line_that_says_what_to_do(output: str, words: str) -> None:
    said = explain_install_failure(output, "installing")
    assert words in said
    assert "\n" not in said
    assert "Traceback" not in said


def test_a_full_disk_while_writing_is_said_in_words() -> None:
    assert "disk is full" in in_words(OSError(errno.ENOSPC, "No space left on device", "/data/x"))
