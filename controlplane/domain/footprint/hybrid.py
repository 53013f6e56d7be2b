"""How a pool of equal blocks serves layers that keep different things.

Rules (vLLM's cache groups): all blocks have the same size in bytes. Layers that are alike form a bucket; buckets are
cut into groups of equally many layers, the last one padded; a request takes blocks from the pool for each group.
Smaller pages get more tokens, or are padded up to the largest page; recurrent states take a page each, so the page of
attention is made at least as large as a state.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.footprint.engine_rules import EngineRules
from controlplane.domain.footprint.kv import KvBucket

BLOCK_TOKENS = 16
_LATENT_ALIGN_TOKENS = 128
_LONGEST = 1_000_000_000_000  # bound of the search for the longest request, in tokens


@dataclass(frozen=True, slots=True)
class KvGroup:
    """Layers that share one block table. `state_blocks` a request are taken by states, whose `block_tokens` are 0, and
    by what is attended to of an encoder; `chunked`: the window is a chunk, which begins with a block."""

    layers: int
    block_tokens: int
    window_tokens: int | None = None
    state_blocks: int = 0
    chunked: bool = False

    def blocks(self, length_tokens: int, in_flight_tokens: int) -> int:
        """Blocks that one request of `length_tokens` takes of the pool at most."""
        if self.state_blocks:
            return self.state_blocks
        if self.window_tokens is None:
            return -(-length_tokens // self.block_tokens)
        if self.chunked:
            return -(-min(self.window_tokens + in_flight_tokens, length_tokens) // self.block_tokens)
        kept = min(self.window_tokens - 1 + in_flight_tokens, length_tokens)
        return -(-kept // self.block_tokens) + 1  # a window seldom begins with its block


@dataclass(frozen=True, slots=True)
class KvLayout:
    """The pool of one accelerator: bytes of a block, and the groups that take blocks from it."""

    bytes_per_block: int
    groups: tuple[KvGroup, ...]
    in_flight_tokens: int
    null_blocks: int = 0  # held back by the pool when one request is checked
    padded_layers: int = 0

    @property
    def hybrid(self) -> bool:
        """Whether layers keep different things, so that a token has no fixed size."""
        return len(self.groups) > 1 or any(group.window_tokens is not None for group in self.groups)

    @property
    def block_tokens(self) -> int:
        """Of the group with the smallest blocks of tokens."""
        return min((group.block_tokens for group in self.groups if group.block_tokens), default=BLOCK_TOKENS)

    def blocks_for(self, length_tokens: int) -> int:
        """Blocks that one request of so many tokens takes of the pool at most, over all groups."""
        return sum(group.blocks(length_tokens, self.in_flight_tokens) for group in self.groups)

    def needed_bytes(self, length_tokens: int) -> int:
        """KV bytes that one request of `length_tokens` needs at most, on this accelerator."""
        return self.blocks_for(length_tokens) * self.bytes_per_block

    def usable_bytes(self, available_bytes: int) -> int:
        """What is compared with one request's need."""
        return available_bytes - self.null_blocks * self.bytes_per_block

    def pool_blocks(self, available_bytes: int) -> int:
        """Whole blocks in so many bytes; 0 for none or less, and where blocks have no bytes."""
        return max(0, available_bytes) // self.bytes_per_block if self.bytes_per_block else 0

    def longest_tokens(self, available_bytes: int, bound: int = _LONGEST) -> int:
        """The longest request whose need fits, at most `bound`; 0 when not even one token fits."""
        usable = self.usable_bytes(available_bytes)
        low, high = 0, bound
        while low < high:
            middle = (low + high + 1) // 2
            if self.needed_bytes(middle) <= usable:
                low = middle
            else:
                high = middle - 1
        return low


def layout(
    buckets: tuple[KvBucket, ...],
    rules: EngineRules,
    *,
    batched_tokens: int,
    block_tokens: int | None = None,
    latent_block_tokens: int | None = None,
    stages: int = 1,
    plans_ahead: bool = True,
) -> KvLayout:
    """The pool for the layers of one accelerator. No layer that keeps anything = blocks of no bytes.

    `block_tokens` were asked for; `latent_block_tokens` are what this card's kernels of latent attention take. Engines
    on CPU cores do not plan a batch ahead.
    """
    in_flight = batched_tokens * max(rules.batches_in_flight if plans_ahead else 1, stages)
    null_blocks = 1 if rules.keeps_null_block else 0
    latent = any(bucket.kind == "mla" for bucket in buckets)
    usual = latent_block_tokens or rules.latent_block_tokens(None)
    block = block_tokens or (usual if latent else BLOCK_TOKENS)
    growing = [bucket for bucket in buckets if not bucket.recurrent]
    states = [bucket for bucket in buckets if bucket.recurrent]
    encoded = any(bucket.kind == "beside" for bucket in growing)
    if not states and not encoded and all(bucket.window_tokens is None for bucket in growing):
        size = block * sum(bucket.layers * bucket.token_bytes for bucket in growing)
        return KvLayout(size, (KvGroup(sum(b.layers for b in growing), block),), in_flight, null_blocks)
    if states:
        block = _block_for_states(growing, states, block, latent)
    page = max([block * b.token_bytes for b in growing] + [b.state_bytes for b in states])
    size = _group_size([bucket.layers for bucket in buckets], rules)
    groups: list[KvGroup] = []
    padded = 0
    for bucket in buckets:
        count = -(-bucket.layers // size)
        padded += count * size - bucket.layers
        tokens = _block_of(bucket, block, page)
        blocks = rules.state_blocks(bucket.kind) if bucket.recurrent else 0
        if bucket.kind == "beside":  # engines hold room for as many tokens of an encoder as a step takes
            blocks = -(-batched_tokens // tokens)
        chunked = bucket.kind == "chunked"
        groups.extend(KvGroup(size, tokens, bucket.window_tokens, blocks, chunked) for _ in range(count))
    return KvLayout(size * page, tuple(groups), in_flight, null_blocks, padded)


def _group_size(counts: list[int], rules: EngineRules) -> int:
    """The shortest bucket, unless padding the others to the longest one costs little."""
    shortest, longest = min(counts), max(counts)
    return longest if longest < shortest * rules.padding_ratio else shortest


def _block_of(bucket: KvBucket, block: int, page: int) -> int:
    """Tokens a block of this bucket: more where the largest page is a whole multiple, else the page is padded."""
    if bucket.recurrent:
        return 0
    own = block * bucket.token_bytes
    return block * (page // own) if page % own == 0 else block


def _block_for_states(growing: list[KvBucket], states: list[KvBucket], block: int, latent: bool) -> int:
    """Tokens a block such that a page of attention holds at least one state."""
    token_bytes = max((bucket.token_bytes for bucket in growing), default=0)
    if not token_bytes:
        return block
    align = _LATENT_ALIGN_TOKENS if latent else BLOCK_TOKENS
    state = max(bucket.state_bytes for bucket in states)
    return max(block, align * -(-state // (align * token_bytes)))
