"""The token counts of a plain JSON answer: a chat, a completion, embeddings.

Where they stand is the engine's matter: vLLM writes them behind the vectors of embeddings, and before the log
probabilities of a prompt, each of which may be megabytes; others write them first of all.
"""

from __future__ import annotations

import re

import msgspec

from controlplane.lib.usage import Usage, answer_decoder, usage_decoder

TAIL_BYTES = 4096
KEPT_BYTES = 4096  # of a piece, for what goes on in the next: no usage is longer
_KEY = b'"usage"'
# Inside a JSON string its quotes would be escaped, so this is a key and its object (which holds numbers and flat
# objects). A model can't write it: all that it says is inside strings.
_USAGE = re.compile(rb'"usage"\s{0,8}:\s{0,8}(\{[^{}]{0,1000}(?:\{[^{}]{0,1000}\}[^{}]{0,1000}){0,2}\})')


def usage_of(answer: bytes) -> Usage | None:
    """Returns the usage of a whole answer; None when it has none that can be read."""
    if len(answer) <= TAIL_BYTES:  # is read as fast as it is searched
        return _usage_in(answer)
    at = answer.rfind(_KEY, max(0, len(answer) - TAIL_BYTES))
    if at >= 0:
        # to decode from the last such key on succeeds only when that belongs to the outermost object
        found = _usage_in(b"{" + answer[at:])
        if found is not None:
            return found
    elif _KEY not in answer:
        return None
    return _usage_in(answer)


def _usage_in(answer: bytes) -> Usage | None:
    try:
        return answer_decoder.decode(answer).usage
    except (msgspec.DecodeError, RecursionError):
        return None


class PassingUsage:
    """Finds the usage of an answer that is too long to be held, while it passes in pieces; the last one counts."""

    __slots__ = ("_rest", "found")

    def __init__(self) -> None:
        self.found: Usage | None = None
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Takes the next piece."""
        data = self._rest + data
        self._rest = data[-KEPT_BYTES:]
        if _KEY not in data:
            return
        for match in _USAGE.finditer(data):
            try:
                found = usage_decoder.decode(match[1])
            except (msgspec.DecodeError, RecursionError):
                continue
            if found.prompt_tokens is not None:
                self.found = found
