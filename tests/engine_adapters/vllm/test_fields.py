"""Every field that vLLM's requests know is decided in ADR 0031, and the gateway does what that says."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from controlplane.domain import steering

ADR = Path(__file__).parents[3] / "docs" / "adr" / "0031-fields-that-steer.md"
VERSION = "0.32"

WALK = """
import json, typing
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.pooling.embed.protocol import EmbeddingRequest
embedding = typing.get_args(typing.get_args(EmbeddingRequest)[0])
models = (ChatCompletionRequest, CompletionRequest, *embedding)
print(json.dumps(sorted({name for one in models for name in one.model_fields})))
"""


def decided() -> dict[str, str]:
    """Field -> its decision, by the table."""
    rows = re.findall(r"^\| (`.+?`) \| (.+?) \|", ADR.read_text(), re.MULTILINE)
    return {name: decision for names, decision in rows for name in re.findall(r"`(\w+)`", names)}


def test_what_is_taken_out_is_what_the_table_says() -> None:
    table = decided()
    out = {name for name, decision in table.items() if decision == "taken out"}
    in_part = {name for name, decision in table.items() if decision == "in part"}
    ours = {"priority", "cache_salt"}
    older = {"logits_processors", "guided_decoding_backend"}
    assert all(table[name] == "ours" for name in ours)
    assert in_part == steering.NESTED.keys()
    assert steering.fields("vllm", [f"{VERSION}.0"]) == out | in_part | ours | older


@pytest.mark.engine
def test_every_field_of_the_installed_engine_is_decided() -> None:
    python = os.environ.get("HEADWORKS_ENGINE_PYTHON", "")
    if not Path(python).is_file():
        pytest.skip("the engine's own models need HEADWORKS_ENGINE_PYTHON (make up prepares it)")
    told = subprocess.run([python, "-c", WALK], capture_output=True, text=True, timeout=300, check=True)
    assert set(json.loads(told.stdout.splitlines()[-1])) == decided().keys()
