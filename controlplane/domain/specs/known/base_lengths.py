"""Limits of base models whose own config.json says another length than that of their chat tunes.

From the files of these models on Hugging Face, as far as known: Qwen 2 and 2.5 state 131072 for most bases and 32768
for what was tuned from them; bases of Qwen 3 state the 32768 that they were trained with.
"""

from __future__ import annotations

_QWEN_2 = ("0.5B", "1.5B", "7B", "57B-A14B", "72B")
_QWEN_25 = ("1.5B", "7B", "14B", "32B", "72B")
_QWEN_3 = ("0.6B", "1.7B", "4B", "8B", "14B", "30B-A3B")

PLAIN: dict[str, int] = {
    **{f"Qwen2-{size}": 131072 for size in _QWEN_2},
    **{f"Qwen2.5-{size}": 131072 for size in _QWEN_25},
}  # of names without any word of a tune
BASE: dict[str, int] = {f"Qwen3-{size}": 32768 for size in _QWEN_3}  # names with the word Base


# whose files may allow more than the table says: pages speak of longer contexts, the files were not seen
UNSEEN = frozenset(("Hunyuan-A13B", "Hunyuan-7B", "QVQ-72B", "aya-expanse-32b", "Qwen2-57B-A14B", "Ling-1T"))


def of(published: str, tunes: frozenset[str]) -> int | None:
    """The limit in tokens of the model of a name that says those words of tunes; None = as the table has it."""
    if not tunes:
        return PLAIN.get(published)
    return BASE.get(published) if tunes == {"base"} else None
