"""What every sentence that the system writes by itself has to keep to."""

from __future__ import annotations

import re

_ONE_OF_MANY = re.compile(r"\b1 (replicas|accelerators|requests|starts|nodes|rows|processes|cards|more reasons)\b")
_PROGRAM = re.compile(r"\[\'|\(\'|\{\'|\bNone\b|\bTrue\b|\bFalse\b|<[A-Z]\w+|  |\.\.|\b0 replicas run\b")


def assert_plain(text: str) -> None:
    """One sentence or more for a person: whole, in the right number, without a trace of the program."""
    assert text, "an empty sentence"
    assert not text[0].islower(), f"begins in the middle: {text}"
    assert text[-1] in ".?", f"has no end: {text}"
    assert not _ONE_OF_MANY.search(text), f"one of many: {text}"
    assert not _PROGRAM.search(text), f"the program shows: {text}"
