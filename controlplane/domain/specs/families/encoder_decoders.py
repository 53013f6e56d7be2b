"""Models with a decoder beside an encoder: what engines serve of them, and the refusal that says so.

vLLM served BART, mBART, Florence-2 and Donut with its first engine (V0), whose last version is 0.10.2; the second one
has Whisper alone, and some speech and document models in 0.32 whose caches are not summed here. T5 it never had.
Source: the registry of 0.32 (what it lists, what it says was removed and with which version).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs.fields import shown

Served = Literal["plugin", "removed", "newest", "never", "other"]

_KINDS: dict[str, Served] = {
    **dict.fromkeys(("bart", "mbart", "florence2"), "plugin"),
    "donut": "removed",
    **dict.fromkeys(("nemotron_parse", "cohere_asr"), "newest"),
    **dict.fromkeys(
        ("t5", "mt5", "umt5", "byt5", "longt5", "switch_transformers", "t5gemma", "t5gemma2", "marian", "pegasus",
         "pegasus_x", "blenderbot", "blenderbot-small", "led", "m2m_100", "nllb-moe", "prophetnet", "bigbird_pegasus",
         "plbart", "mvp", "fsmt", "encoder-decoder", "pix2struct", "vision-encoder-decoder", "speech-encoder-decoder",
         "speech_to_text", "seamless_m4t", "seamless_m4t_v2", "moonshine", "trocr", "udop", "musicgen", "dia"),
        "never",
    ),
}  # fmt: skip
MODEL_TYPES = frozenset(_KINDS)
# beginnings of names that are of these kinds alone
_NAMES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"florence-2|(?:m|distil)?bart(?:-|$)|mbart"), "bart"),
    (re.compile(r"donut-"), "donut"),
    (re.compile(r"(?:flan-|m|um|by|long|code)?t5(?:-|v|x|gemma|$)|t0pp|ul2|flan-ul2|aya-101|madlad400"), "t5"),
    (re.compile(r"nllb-|m2m100|opus-mt-|pegasus-|blenderbot|led-base|led-large|seamless-m4t"), "marian"),
)
_HINT = "Give a model that writes from its own tokens, or Whisper."


def refusal(model_type: str) -> RefusedError:
    """Of a config.json of that type; of any other that says of itself that it has an encoder and a decoder."""
    right = {"model_type": "a model without an encoder beside its decoder, or Whisper"}
    return RefusedError(
        "model_config",
        _sentence(f"model_type {shown(model_type)}", _KINDS.get(model_type, "other")),
        hint=_HINT,
        fields=right if model_type in _KINDS else {"is_encoder_decoder": "false"},
    )


def refusal_by_name(name: str) -> RefusedError | None:
    """Of a model whose name says that it is one of them; None for every other name."""
    plain = name.strip().lower().replace("_", "-").rsplit("/", 1)[-1]
    kind = next((kind for pattern, kind in _NAMES if pattern.match(plain)), None)
    if kind is None:
        return None
    right = "a model without an encoder beside its decoder, or Whisper"
    return RefusedError("unknown_model", _sentence(shown(name), _KINDS[kind]), hint=_HINT, fields={"model": right})


def _sentence(named: str, served: Served) -> str:
    why = "of such models vLLM's second engine serves Whisper"
    if served == "plugin":
        why = "vLLM served it with its first engine, up to 0.10.2, and needs the package bart-plugin since"
    elif served == "removed":
        why = "vLLM served it with its first engine, up to 0.10.2, and not since"
    elif served == "newest":
        why = "vLLM 0.32 serves it"
    elif served == "never":
        why = "vLLM serves it in no version"
    return f"{named} has a decoder beside an encoder, whose caches are not summed here: {why}."


def is_one(values: Mapping[str, object], model_type: str) -> bool:
    """Whether a config.json is of a model with a decoder beside an encoder."""
    return model_type in MODEL_TYPES or values.get("is_encoder_decoder") is True
