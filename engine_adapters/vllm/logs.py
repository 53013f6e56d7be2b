"""What vLLM's log says: memory and version of a start, and why an engine ended.

The wording changed over the versions; each pattern names what it reads, not which version wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from controlplane.domain.observed import EngineFacts
from engine_adapters.vllm.exits import explain_exit

__all__ = ["explain_exit", "read_facts"]

GIB = 1024**3
V0_BLOCK_SIZE_TOKENS = 16  # what V0 took on a GPU when nobody said otherwise

_START = re.compile(r"Initializing an? (?:V[01] )?LLM engine \(v?(?P<version>[^)]+)\)")
_BANNER = re.compile(r"(?:API server version|█ +version) v?(?P<version>\d+\.\d+[^\s,]*)")
_WEIGHTS = (
    re.compile(r"(?:Loading model weights|Model loading) took (?P<size>[\d.]+) (?P<unit>GB|GiB|MB|MiB)"),
    re.compile(r"model weights take (?P<size>[\d.]+) ?(?P<unit>GiB)"),
    re.compile(r"Checkpoint size: (?P<size>[\d.]+) (?P<unit>GiB)"),  # the CPU build tells no more than this
)
_KV_BYTES = (
    re.compile(r"Available KV cache memory: (?P<size>-?[\d.]+) (?P<unit>GiB)"),
    re.compile(r"reserved for KV Cache is (?P<size>-?[\d.]+) ?(?P<unit>GiB)"),
    re.compile(r"available_kv_cache_memory\s+(?P<size>-?[\d.]+) ?(?P<unit>GiB)"),
    re.compile(r"(?:Explicitly|Auto) set \((?P<size>[\d.]+)/[\d.]+\) (?P<unit>GiB) for KV cache"),
)
_KV_TOKENS = re.compile(r"KV cache size: (?P<tokens>[\d,]+) tokens")
_BLOCKS = re.compile(r"# (?:GPU|cuda|CPU|cpu) blocks: (?P<blocks>\d+)")  # the first number of the line is the card's
_BLOCK_SIZE = re.compile(r"['\"]?\bblock_size['\"]?[=:] ?(?P<tokens>\d+)")
_CONCURRENCY = re.compile(r"Maximum concurrency for [\d,]+ tokens per request: (?P<times>[\d.]+)x")
# up to 0.8.2 "GB" was printed and GiB meant
_UNIT_BYTES = {"GB": GIB, "GiB": GIB, "MB": 1024**2, "MiB": 1024**2}


def read_facts(log_lines: Sequence[str]) -> EngineFacts:
    """Returns what the log of the last start tells; None for what it does not.

    Memory is that of one accelerator. Where ranks differ, the weights are the largest and the KV cache the smallest:
    that is what limits the whole.
    """
    version, lines = _last_start(log_lines)
    block_size = _first_int(_BLOCK_SIZE, lines, "tokens")
    tokens = [int(match["tokens"].replace(",", "")) for match in _matches(_KV_TOKENS, lines)]
    blocks = [int(match["blocks"]) for match in _matches(_BLOCKS, lines)]
    if not tokens and blocks:
        tokens = [min(blocks) * (block_size or V0_BLOCK_SIZE_TOKENS)]
    concurrency = [float(match["times"]) for match in _matches(_CONCURRENCY, lines)]
    weights, kv = _sizes(_WEIGHTS, lines), _sizes(_KV_BYTES, lines)
    return EngineFacts(
        engine_version=version,
        weights_bytes=max(weights) if weights else None,
        kv_cache_bytes=min(kv) if kv else None,
        kv_cache_tokens=min(tokens) if tokens else None,
        kv_block_size_tokens=block_size,
        max_concurrency=min(concurrency) if concurrency else None,
    )


def _last_start(log_lines: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Returns the version and the lines from the last start on; a log file may hold several."""
    version: str | None = None
    begin, announced = 0, False
    for index, line in enumerate(log_lines):
        banner = _BANNER.search(line)
        start = _START.search(line)
        if banner or (start and not announced):
            begin = index
        if banner or start:
            announced = banner is not None  # the banner comes first, the engine's own line belongs to it
            version = (banner or start)["version"]  # type: ignore[index]
    return version, log_lines[begin:]


def _matches(pattern: re.Pattern[str], lines: Iterable[str]) -> list[re.Match[str]]:
    return [match for match in map(pattern.search, lines) if match]


def _first_int(pattern: re.Pattern[str], lines: Iterable[str], group: str) -> int | None:
    found = _matches(pattern, lines)
    return int(found[0][group]) if found else None


def _sizes(patterns: Iterable[re.Pattern[str]], lines: Sequence[str]) -> list[int]:
    """Returns the sizes in bytes by the first pattern that is found at all."""
    for pattern in patterns:
        found = _matches(pattern, lines)
        if found:
            return [round(float(match["size"]) * _UNIT_BYTES[match["unit"]]) for match in found]
    return []
