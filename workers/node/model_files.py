"""Looks whether the files of models are on this machine, in a thread of its own: a dead network file system holds up
whoever asks it.

Guarantees
    Only names, sizes, indexes and the headers of safetensors are read, each header once while its file stays the same.
    What can't be read is told as unknown with the reason, never as absent.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from controlplane.domain import model_files
from controlplane.domain.model_files import FilesSeen, Folder, ModelFilesLook
from engine_adapters.environment import inherited
from workers.node.companion import Companion

logger = logging.getLogger(__name__)

MOST_ENTRIES = 4000  # of a folder
LARGEST_INDEX_BYTES = 32 * 1024 * 1024
LARGEST_HEADER_BYTES = 64 * 1024 * 1024
MOST_REMEMBERED = 20_000  # headers
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


class Looker:
    """Looks at one location after another. One owner, not thread-safe."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._hub = hub_cache(inherited(os.environ if environment is None else environment))
        self._whole: dict[tuple[str, int, int], bool] = {}  # (path, bytes, changed at) -> as long as its header says

    def look(self, location: str) -> FilesSeen:
        """Returns what is here of a location."""
        try:
            folder = self._at(Path(location)) if model_files.is_path(location) else self._in_hub_cache(location)
        except (FileNotFoundError, NotADirectoryError):
            return FilesSeen(location, "absent")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            return FilesSeen(location, "unknown", reason=f"it can't be read ({why})")
        return model_files.judge(location, folder)

    def _in_hub_cache(self, name: str) -> Folder:
        """The snapshot that an engine takes when it is told no revision."""
        root = self._hub / f"models--{name.replace('/', '--')}"
        root.stat()
        unfinished = False
        try:
            unfinished = any(one.endswith(".incomplete") for one in _sizes(root / "blobs"))
            commit = (root / "refs" / "main").read_text(encoding="utf-8").strip()
            found = self._at(root / "snapshots" / commit)
        except (FileNotFoundError, NotADirectoryError):
            return Folder(unfinished=unfinished)
        return Folder(found.sizes, found.named, found.cut, unfinished)

    def _at(self, path: Path) -> Folder:
        if path.is_file():
            return Folder({path.name: path.stat().st_size})
        sizes = _sizes(path)
        named, broken = _named(path, sizes)
        return Folder(sizes, named, broken | {name for name in sizes if not self._is_whole(path / name)})

    def _is_whole(self, file: Path) -> bool:
        """False for a safetensors file that is shorter than its header says: it is still being copied, or was cut."""
        if file.suffix != ".safetensors":
            return True
        try:
            stat = file.stat()
        except FileNotFoundError:
            return False
        key = (str(file), stat.st_size, stat.st_mtime_ns)
        if key not in self._whole:
            if len(self._whole) >= MOST_REMEMBERED:
                self._whole.clear()
            self._whole[key] = stat.st_size >= _length(file)
        return self._whole[key]


class ModelFilesWatch:
    """Looks again and again at what is asked for. `ask`, `start` and `stop` belong to one owner."""

    def __init__(
        self,
        look: Callable[[str], FilesSeen],
        on_news: Callable[[], None],
        every_s: float = model_files.LOOK_EVERY_S,
    ) -> None:
        self.newest: ModelFilesLook | None = None
        self._look = look
        self._on_news = on_news
        self._every_s = every_s
        self._asked: tuple[str, ...] | None = None  # None = nobody has asked yet
        self._ending = threading.Event()
        self._due = threading.Event()
        self.companion = Companion("model files", self._run)

    def ask(self, locations: tuple[str, ...]) -> None:
        """Says what to look for; it is looked for at once when that is something new."""
        if locations != self._asked:
            self._asked = locations
            self._due.set()

    def start(self) -> None:
        """Begins to look."""
        self.companion.start()

    def stop(self) -> None:
        """Ends; a look that hangs is left behind."""
        self._ending.set()
        self._due.set()
        self.companion.join(2.0)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._due.clear()
            if self._asked is not None:
                self._look_at(self._asked)
            self._due.wait(self._every_s)

    def _look_at(self, asked: tuple[str, ...]) -> None:
        before, at = self.newest, time.time()
        found = tuple(self._look(one) for one in asked[: model_files.MOST_LOCATIONS])
        self.newest = ModelFilesLook(at, found)
        if before is None or before.found != found:
            self._on_news()


def hub_cache(environment: Mapping[str, str]) -> Path:
    """Returns the folder in which an engine with this environment keeps what it fetched from the Hub."""
    home = environment.get("HF_HOME") or str(Path(environment.get("HOME") or "~") / ".cache" / "huggingface")
    return Path(environment.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()


def _sizes(folder: Path) -> dict[str, int]:
    """The files of a folder with their bytes; what a link points to counts, 0 where it points to nothing."""
    sizes: dict[str, int] = {}
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= MOST_ENTRIES:
                raise ValueError(f"more than {MOST_ENTRIES} files")
            try:
                if entry.is_dir():
                    continue
                sizes[entry.name] = entry.stat().st_size
            except FileNotFoundError:
                sizes[entry.name] = 0
    return sizes


def _named(folder: Path, sizes: Mapping[str, int]) -> tuple[frozenset[str] | None, frozenset[str]]:
    """The weight files that the folder's index names, and the index itself where it is not whole."""
    name = next((one for one in _INDEXES if one in sizes), None)
    if name is None:
        return None, frozenset()
    if sizes[name] > LARGEST_INDEX_BYTES:
        raise ValueError(f"{name} is larger than {LARGEST_INDEX_BYTES} bytes")
    try:
        index: Any = json.loads((folder / name).read_bytes())
        named = frozenset(one for one in index["weight_map"].values() if isinstance(one, str))
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None, frozenset({name})
    return named, frozenset()


def _length(file: Path) -> int:
    """The bytes that a safetensors file should have, by its header; what is no header at all claims nothing."""
    with file.open("rb") as stream:
        header_bytes = int.from_bytes(stream.read(8), "little")
        if not 0 < header_bytes <= LARGEST_HEADER_BYTES:
            return 0
        text = stream.read(header_bytes)
    if len(text) < header_bytes:
        return 8 + header_bytes
    try:
        tensors: Any = json.loads(text)
        ends = [one["data_offsets"][1] for name, one in tensors.items() if name != "__metadata__"]
        return 8 + header_bytes + max((int(one) for one in ends), default=0)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return 0
