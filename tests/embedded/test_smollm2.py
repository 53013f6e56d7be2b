"""The converter, run in the engine's environment as the launcher runs it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from controlplane.embedded.layout import ROOT, here

pytestmark = pytest.mark.engine

INTERLEAVING = """
import numpy as np
from controlplane.embedded.smollm2.convert import without_interleaving, engine_name
heads, rows, columns = 3, 24, 5
original = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
# what llama.cpp's converter does to the rows: halves become pairs
stored = original.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
assert not (stored == original).all()
assert (without_interleaving(stored, heads) == original).all()
assert engine_name("blk.7.attn_q.weight") == "model.layers.7.self_attn.q_proj.weight"
assert engine_name("token_embd.weight") == "model.embed_tokens.weight"
"""

TOKENS = """
import sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
text = "In 2024 there were 365 days; été, 水."
ids = tokenizer.encode(text, add_special_tokens=False)
words = tokenizer.convert_ids_to_tokens(ids)
assert tokenizer.decode(ids) == text, tokenizer.decode(ids)
assert [word for word in words if word.isdigit()] == list("2024365"), words
chat = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True)
assert chat.startswith("<|im_start|>system"), chat
assert chat.endswith("<|im_start|>assistant\\n"), chat
assert len(tokenizer.encode("<|im_end|>", add_special_tokens=False)) == 1
"""


@pytest.fixture(scope="module")
def engine_python() -> str:
    path = os.environ.get("HEADWORKS_ENGINE_PYTHON") or str(here().engine_link / "bin" / "python")
    if not Path(path).exists():
        pytest.skip("the engine's environment is not there (make prepare makes it)")
    return path


@pytest.fixture(scope="module")
def model() -> Path:
    path = Path(os.environ.get("HEADWORKS_MODEL_PATH") or here().model)
    if not (path / "config.json").exists():
        pytest.skip("the converted model is not there (make prepare makes it)")
    return path


def run_there(python: str, code: str, *arguments: str) -> None:
    done = subprocess.run(
        [python, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_rows_of_queries_and_keys_are_put_back_in_order(engine_python: str) -> None:
    run_there(engine_python, INTERLEAVING)


def test_the_tokenizer_splits_digits_and_gives_every_text_back(engine_python: str, model: Path) -> None:
    run_there(engine_python, TOKENS, str(model))


def test_the_model_shares_its_embedding_and_is_whole(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    assert config["tie_word_embeddings"] is True
    assert (config["num_hidden_layers"], config["num_key_value_heads"]) == (30, 3)
    with open(model / "model.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    assert len(header) - 1 == 272
    assert {entry["dtype"] for name, entry in header.items() if name != "__metadata__"} == {"BF16"}
