"""How long a request may be, by what config.json says of positions and of rotary scaling: as vLLM derives it.

Rules (vLLM 0.32): the smallest of all names of the limit counts; `model_max_length` goes before them. Scaling whose
configs leave the limit unscaled (linear, dynamic) multiplies it by `factor`. YaRN, Llama 3 and LongRoPE configs state
the scaled limit already; engines before 0.32 took original x factor for YaRN instead (vllm#56446). Under LongRoPE a
length that is not given is the original one since 0.11.1 (vllm#27431). Learned positions of RoBERTa begin at 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane.domain.specs.families.shape import POSITIONS
from controlplane.domain.specs.fields import LARGEST_LENGTH, Fields, whole_number

_OTHER_NAMES = ("max_seq_length", "seq_len", "max_target_positions")
_ALREADY_SCALED = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "default", "mrope")
_SCALED_ALREADY_FAMILIES = ("gemma3",)
_FIRST_POSITION = {"roberta": 2, "xlm-roberta": 2, "camembert": 2}
_LARGEST_FACTOR = 10_000.0
_WITHOUT_ANY = 2048  # what vLLM assumes of a config that names no limit


@dataclass(frozen=True, slots=True)
class Lengths:
    """In tokens. `longest` None = no limit is named; `usual` is taken where no length is asked for, None = `longest`;
    `yarn_before_0_32` is the limit that older engines derive under YaRN, None = the same."""

    longest: int | None
    usual: int | None = None
    yarn_before_0_32: int | None = None


def read(fields: Fields, model_type: str) -> Lengths:
    """Raises RefusedError naming the field of rotary scaling that can't be."""
    longest = _named(fields)
    if longest is None:
        return Lengths(None, usual=_WITHOUT_ANY)
    longest = max(1, longest - _FIRST_POSITION.get(model_type, 0))
    usual = yarn = None
    factor = 1.0
    for scaling in _scalings(fields):
        kind = (scaling.text("rope_type") or scaling.text("type")).lower()
        given = scaling.ratio("factor", most=_LARGEST_FACTOR)
        original = scaling.number("original_max_position_embeddings", most=LARGEST_LENGTH)
        if kind in ("longrope", "su"):
            usual = fields.number("original_max_position_embeddings", most=LARGEST_LENGTH) or original
        elif kind == "yarn" and given and original:
            yarn = int(original * given)
        elif kind and kind not in _ALREADY_SCALED and given:
            factor = given
    if model_type.startswith(_SCALED_ALREADY_FAMILIES):
        factor = 1.0
    return Lengths(min(int(longest * factor), LARGEST_LENGTH), usual, yarn)


def _named(fields: Fields) -> int | None:
    """The smallest limit that is named, unless `model_max_length` is; one beyond all lengths is none."""
    own = whole_number(fields.values.get("model_max_length"))
    if own is not None and 0 < own <= LARGEST_LENGTH:
        return own
    found = [fields.number(name, most=LARGEST_LENGTH) for name in POSITIONS]
    more = [whole_number(fields.values.get(name)) for name in _OTHER_NAMES]
    known = [number for number in (*found, *more) if number is not None and 0 < number <= LARGEST_LENGTH]
    return min(known) if known else None


def _scalings(fields: Fields) -> Iterable[Fields]:
    """One description of rotary scaling, or one for each kind of layer."""
    part = fields.part("rope_parameters") or fields.part("rope_scaling")
    if part is None:
        return ()
    nested = [name for name, value in part.values.items() if isinstance(value, Mapping)]
    if part.has("rope_type", "type") or not nested:
        return (part,)
    return tuple(found for name in nested[:16] if (found := part.part(name)) is not None)
