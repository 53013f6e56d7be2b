"""What speculation adds to a set-up: layers in the cache and weights on the cards.

A model's own draft layers are counted from its config. A named draft model brings all of its layers and weights. What
EAGLE and others put on a model is one layer like the model's own, a projection of hidden vectors to one, and with
EAGLE 3 a head of its own for a smaller vocabulary (two or three hidden vectors, 32,000 words in published heads).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import known_models, precision
from controlplane.domain.specs.model import Layers, ModelFacts
from controlplane.domain.specs.precision import Precision

GIB = 2**30
_NO_LAYERS = ("ngram", "suffix", "none", "lookup", "medusa")
_EAGLE_3_WORDS = 32_000
_EAGLE_3_HIDDEN_VECTORS, _HIDDEN_VECTORS = 3, 2


@dataclass(frozen=True, slots=True)
class Draft:
    """Speculative decoding: tokens proposed a step, and the layers it adds to the cache.

    `own`: the model's own draft layers, whose weights lie in its files; `weight_bytes` are of other ones, before they
    are split over ranks. `eagle`: it goes on from the model's hidden vectors.
    """

    method: str
    tokens: int
    layers: tuple[Layers, ...] = ()
    own: bool = False
    weight_bytes: int = 0
    eagle: bool = False


def draft_of(model: ModelFacts, kinds: Precision, speculative: str | None, notes: list[str]) -> Draft | None:
    """What a description such as "mtp 3" or "Qwen/Qwen3-0.6B, 5 tokens" adds; None without one. Raises RefusedError
    naming `speculative`."""
    text = (speculative or "").strip().lower()
    if not text or any(word in text for word in ("none", "off", "false")):
        return None
    if model.keeps_nothing:
        notes.append("A model that writes nothing takes no draft; none was counted.")
        return None
    name, named = _named(text)
    tokens = _tokens(text, text.replace(name, " ") if name else text)
    if any(word in text for word in _NO_LAYERS):
        return Draft(text, tokens)
    if model.draft_layers and ("mtp" in text or named is None):
        return Draft(text, tokens, model.draft_layers, own=True, eagle=True)
    if named is not None and "eagle" not in text:
        size = precision.parse(None, None, None, named).weight_bytes(named)
        notes.append(f"The draft is {named.name[:100]}: its layers and {size / GIB:.2f} GiB of weights were added.")
        return Draft(text, tokens, named.layers, weight_bytes=size)
    widest = [layer for layer in model.layers if layer.kind in ("full", "mla")]
    size = _layer_parameters(model, heads_own_words="eagle3" in text or "eagle-3" in text) * kinds.plain_bytes
    notes.append(
        f'What "{text[:40]}" holds is not known; one more layer like the model\'s own and {size / GIB:.2f} GiB of '
        "weights were taken."
    )
    layers = (replace(widest[0], count=1),) if widest else ()
    return Draft(text, tokens, layers, weight_bytes=size, eagle=True)


def _named(text: str) -> tuple[str, ModelFacts | None]:
    """The model that a word of the text names, with that word; heads that are named after their base are none."""
    for word in re.split(r"[\s,;=]+", text):
        path = "/" in word
        found = known_models.find(word) if path or any(letter.isdigit() for letter in word) else None
        if found is not None and (path or not found.assumptions):
            return word, found
        if path:
            return word, None
    return "", None


def _tokens(text: str, rest: str) -> int:
    """How many tokens are proposed: the last number that is no part of a model's name."""
    numbers: Sequence[str] = re.findall(r"\b(\d{1,3})\b", rest)
    tokens = int(numbers[-1]) if numbers else 1
    if tokens < 1 or re.search(r"(?:^|[\s=:])-\d", rest):
        right = "a method and how many tokens it proposes, at least 1, such as mtp 3"
        raise RefusedError(
            "speculative",
            f'speculative is "{text[:40]}", which can\'t be.',
            hint=f"speculative: {right}",
            fields={"speculative": right},
        )
    return tokens


def _layer_parameters(model: ModelFacts, *, heads_own_words: bool) -> int:
    """Of one dense layer as wide as the model's, and its projection."""
    hidden = model.hidden_size
    attention = model.attention_parameters // max(1, model.num_hidden_layers)
    feed_forward = 3 * hidden * model.intermediate_size
    vectors = _EAGLE_3_HIDDEN_VECTORS if heads_own_words else _HIDDEN_VECTORS
    head = _EAGLE_3_WORDS * hidden if heads_own_words else 0
    return attention + feed_forward + vectors * hidden * hidden + head
