"""Whether a node has the files of a model: judged from what lies in a folder, and what that means for placement.

A location is what a variant calls its path: an absolute path, which the engine reads on its node, or a name on the
Hugging Face Hub, which the engine looks for in the cache of its node and fetches when it is not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

LOOK_EVERY_S = 20.0  # a node looks again: a copy that has just ended is soon known
COUNTS_FOR_S = 120.0  # what was seen longer ago tells nothing any more
MOST_LOCATIONS = 64  # that nodes are asked about

State = Literal["present", "partly", "absent", "unknown"]

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".tensors")
_NO_WEIGHTS = frozenset({"training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt"})  # of a training
_DESCRIPTIONS = ("config.json", "params.json")
_NUMBERED = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<ending>\.\w+)")
_MOST_NUMBERED = 2000


@dataclass(frozen=True, slots=True)
class Folder:
    """What a node found in a model's folder. `sizes` maps a file's name to its bytes; `named` are the weight files of
    its index, None = it has no index; `cut` are files that are shorter than they say themselves; `unfinished`: a
    download of it has not ended."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    named: frozenset[str] | None = None
    cut: frozenset[str] = frozenset()
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class FilesSeen:
    """What a node has of one location. `size_bytes` are those of its weight files; `missing` counts weight files that
    are known to belong to it and are not there whole; `reason` says what is wrong, as the rest of a sentence."""

    location: str
    state: State
    size_bytes: int = 0
    missing: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ModelFilesLook:
    """One look at everything a node is asked about, begun at `at` (seconds since the epoch, by the node's clock)."""

    at: float
    found: tuple[FilesSeen, ...] = ()


@dataclass(frozen=True, slots=True)
class FilesOnNode:
    """What placement makes of it. `refusal` says why no engine can start there, the empty text when one can."""

    state: State
    refusal: str = ""


def is_path(location: str) -> bool:
    """Returns whether a location is a path on the node, and not a name that the engine resolves."""
    return location.startswith("/")


def is_weights(name: str) -> bool:
    """Returns whether a file holds weights, by its name."""
    return name.endswith(_WEIGHTS) and name not in _NO_WEIGHTS


def judge(location: str, folder: Folder) -> FilesSeen:
    """Returns what there is of a model, given what lies in its folder."""
    weights = {name: size for name, size in folder.sizes.items() if is_weights(name)}
    expected = (folder.named or _all_numbers(weights) or frozenset(weights)) | (folder.cut - weights.keys())
    missing = sum(not folder.sizes.get(name) or name in folder.cut for name in expected)
    size_bytes = sum(weights.values())
    if missing:
        reason = why_missing(missing, len(expected))
    elif folder.unfinished:
        reason = "a download of it has not ended"
    elif not folder.sizes:
        return FilesSeen(location, "absent")
    elif not weights:
        reason = "no weight files are there"
    elif not any(name in folder.sizes for name in _DESCRIPTIONS) and not any(one.endswith(".gguf") for one in weights):
        reason = "its config.json is not there"
    else:
        return FilesSeen(location, "present", size_bytes)
    return FilesSeen(location, "partly", size_bytes, missing, reason)


def why_missing(missing: int, expected: int) -> str:
    """Returns what is wrong where weight files are missing."""
    return f"{missing} of its {expected} weight files are missing or not whole"


def on_node(location: str, state: State, missing: int, reason: str) -> FilesOnNode:
    """Returns what placement makes of what a node saw.

    Only what is certain keeps an engine away: a path without anything at it, or without weight files that are known to
    belong there. What is named on the Hub the engine fetches itself.
    """
    return FilesOnNode(state, why_not(location, state, missing, reason) if is_path(location) else "")


def why_not(location: str, state: State, missing: int, reason: str) -> str:
    """Returns why an engine can't start from a path, the empty text when it may."""
    if state == "absent":
        return f"has no files at {location}"
    if state == "partly" and missing:
        return f"has only a part of the files at {location} ({reason})"
    return ""


def _all_numbers(weights: Mapping[str, int]) -> frozenset[str]:
    """The names of all files of a set of which some are called `model-00001-of-00004.safetensors`."""
    sets = {
        (found["stem"], int(found["count"]), found["ending"])
        for name in weights
        if (found := _NUMBERED.fullmatch(name)) and 0 < int(found["count"]) <= _MOST_NUMBERED
    }
    return frozenset(
        f"{stem}-{number:05}-of-{count:05}{ending}" for stem, count, ending in sets for number in range(1, count + 1)
    )
