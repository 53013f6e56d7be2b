"""What a sequence holds of a KV cache in which layers keep different things.

An engine with sliding windows or recurrent layers serves all layers from one pool of blocks. A short sequence takes
blocks for every layer; beyond the window only some layers go on keeping tokens; a recurrent state takes its blocks at
once. So a token has no fixed size, and the number of tokens that such an engine logs is that of its longest requests.
Here a pool is counted in tokens as all layers would keep them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SequenceKv:
    """Of a sequence `fixed_tokens` are held at once, each token up to `window_tokens` counts whole, and each one beyond
    as `beyond_share` (0 to 1) of one."""

    window_tokens: int
    beyond_share: float
    fixed_tokens: int = 0

    def held_tokens(self, tokens: int, sequences: int = 1) -> int:
        """Returns what so many tokens in `sequences` equal parts hold, in tokens as all layers would keep them."""
        each = tokens / sequences
        beyond = each - self.window_tokens
        if beyond > 0.0:
            each = self.window_tokens + self.beyond_share * beyond
        return int((self.fixed_tokens + each) * sequences)

    def longest_tokens(self, capacity_tokens: int) -> int | None:
        """Returns how long the longest sequence is that a pool holds; None = no length is too long for it."""
        left = capacity_tokens - self.fixed_tokens
        if left < self.window_tokens:
            return max(0, left)
        if self.beyond_share <= 0.0:
            return None
        return int(self.window_tokens + (left - self.window_tokens) / self.beyond_share)
