"""Every accelerator that Headworks knows, and how its many names are read.

Guarantees
    A name is found whole or not at all: words that are left over and mean nothing here give None, as do two cards in
    one name ("A10G/L4") and slices of a card. A size or a form (SXM, PCIe, NVL) that contradicts the card gives None.
"""

from __future__ import annotations

import difflib
import re

from controlplane.domain.specs import accelerators_nvidia, accelerators_others, accelerators_workstation
from controlplane.domain.specs.accelerator import AcceleratorFacts
from controlplane.domain.specs.accelerator_rows import GIB

ACCELERATORS: tuple[AcceleratorFacts, ...] = (
    *accelerators_nvidia.CARDS,
    *accelerators_workstation.CARDS,
    *accelerators_others.CARDS,
)

LONGEST_NAME = 200

# Words of drivers, vendors and shops that do not tell one card from another.
_NOISE = frozenset({
    "nvidia", "amd", "intel", "huawei", "google", "aws", "amazon", "instinct", "tesla", "geforce", "quadro",
    "corporation", "inc", "metax", "hygon", "graphics", "gpu", "gpus", "card", "cards", "accelerator", "generation",
    "edition", "blackwell", "hopper", "ampere", "turing", "dgx", "hgx", "oam", "vf", "hbm", "hbm2", "hbm2e", "hbm3",
    "hbm3e",
    "gddr6", "gddr6x", "gddr7", "radeon", "cloud", "npu", "atlas", "mi",
})  # fmt: skip
_FORMS = {"sxm": "sxm", "sxm2": "sxm", "sxm3": "sxm", "sxm4": "sxm", "sxm5": "sxm", "sxm6": "sxm", "pcie": "pcie",
          "pci": "pcie", "nvl": "nvl"}  # fmt: skip
_WORD = re.compile(r"[a-z0-9.]+")
_APART = re.compile(r"(\d)\s+(gi?b)\b")  # 80 GB
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(?:gb|gib|g)$")

_Key = tuple[str, float | None, str | None]  # model, GiB, form


def find(name: str) -> AcceleratorFacts | None:
    """The card called `name`, however a driver, a shop or a benchmark writes it; None where nobody knows it.

    "NVIDIA H100 80GB HBM3", "8x H100", "RTX 3090", "A100 40GB" and "Tesla V100-SXM2-16GB" are all understood.
    """
    key = _key(name)
    if key is None:
        return None
    _, gib, form = key
    named = [card for card in of_model(name) if _is_form(card, form)]
    if gib is None:
        return named[0] if named else None
    near = [card for card in named if _is_size(card, gib)]
    return near[0] if near else None


def of_model(name: str) -> tuple[AcceleratorFacts, ...]:
    """All cards of the model that `name` says, whatever memory and form it says beside; none where nobody knows it."""
    key = _key(name)
    return () if key is None else _BY_MODEL.get(key[0]) or _BY_MODEL.get("rtx" + key[0], ())  # people say "4070 Ti"


def like(name: str) -> tuple[str, ...]:
    """Names of known cards that look like `name`, the nearest first: what somebody may have meant."""
    words = [word for word in _WORD.findall(name[:LONGEST_NAME].lower()) if word not in _NOISE and word != "laptop"]
    plain = "-".join(words)
    by_name = {card.name.lower(): card.name for card in ACCELERATORS}
    return tuple(by_name[found] for found in difflib.get_close_matches(plain, by_name, n=3, cutoff=0.6))


def names() -> tuple[str, ...]:
    """Names of all known cards, in the order of the tables."""
    return tuple(card.name for card in ACCELERATORS)


def _is_size(card: AcceleratorFacts, gib: float) -> bool:
    """Whether `gib` may be said of the card: within 9 % of nominal, or a size that one of its names carries."""
    if abs(card.memory_bytes / GIB - gib) <= 0.09 * gib:
        return True
    return any((key := _key(name)) is not None and key[1] == gib for name in card.aliases)


def _is_form(card: AcceleratorFacts, form: str | None) -> bool:
    forms = {key[2] for name in (card.name, *card.aliases) if (key := _key(name)) is not None and key[2]}
    return form is None or not forms or form in forms


def _key(name: str) -> _Key | None:
    """Model, size and form in a name; None where it is no name of one card."""
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        return None
    text = _APART.sub(r"\1\2", re.sub(r"\([^)]*\)", " ", name.lower()).replace("?", " "))
    if "/" in text or "+" in text or "mig" in text or "laptop" in text:
        return None
    model: list[str] = []
    gib: float | None = None
    form: str | None = None
    for word in _WORD.findall(text):
        if (size := _SIZE.match(word)) and len(model) > 0:
            gib = float(size.group(1))
        elif word in _FORMS:
            form = _FORMS[word]
        elif word not in _NOISE:
            model.append(word)
    model = _without_count(model)
    return ("".join(model), gib, form) if model else None


def _without_count(words: list[str]) -> list[str]:
    """Drops "8x" in front and "x8" behind, with a space between or without one before the card."""
    if len(words) > 2 and words[0].isdigit() and words[1] == "x":
        words = words[2:]
    if words and (count := re.match(r"\d{1,3}x(?=[a-z])", words[0])):
        words = [words[0][count.end() :], *words[1:]]
    if len(words) > 1 and re.fullmatch(r"\d{1,3}x|x\d{1,3}", words[0]):
        words = words[1:]
    if len(words) > 1 and re.fullmatch(r"x\d{1,3}|\d{1,3}x", words[-1]):
        words = words[:-1]
    return words


def _by_model() -> dict[str, tuple[AcceleratorFacts, ...]]:
    """Model → cards of that model; first those that carry the bare name."""
    found: dict[str, list[AcceleratorFacts]] = {}
    for card in ACCELERATORS:
        for name in (card.name, *card.aliases):
            key = _key(name)
            if key is None:
                continue
            cards = found.setdefault(key[0], [])
            bare = key[1] is None and key[2] is None
            if card not in cards:
                cards.insert(0, card) if bare else cards.append(card)
            elif bare:
                cards.remove(card)
                cards.insert(0, card)
    return {model: tuple(cards) for model, cards in found.items()}


_BY_MODEL = _by_model()
