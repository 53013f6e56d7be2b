"""Looking for models' files: real folders, and a cache of the Hub as its library lays it out."""

from __future__ import annotations

import json
import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane.domain.model_files import FilesSeen
from tests.workers.node.bench import eventually
from workers.node import model_files
from workers.node.model_files import Looker, ModelFilesWatch, hub_cache

NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
COMMIT = "12fd25f77366fa6b3b4b768ec3050bf629380bac"


def make_weights(file: Path, tensor_bytes: int = 400, there_bytes: int | None = None) -> int:
    """Writes a safetensors file with one tensor, of which only so many bytes are there; returns its size."""
    header = json.dumps(
        {"w": {"dtype": "BF16", "shape": [tensor_bytes // 2], "data_offsets": [0, tensor_bytes]}}
    ).encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(
        struct.pack("<Q", len(header)) + header + bytes(tensor_bytes if there_bytes is None else there_bytes)
    )
    return file.stat().st_size


def make_model(folder: Path, shards: int = 2) -> int:
    """Writes a model of some shards with its index; returns the bytes of its weights."""
    names = [f"model-{number:05}-of-{shards:05}.safetensors" for number in range(1, shards + 1)]
    size = sum(make_weights(folder / name) for name in names)
    index = {"metadata": {"total_size": 400 * shards}, "weight_map": {f"w{n}": name for n, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text("{}")
    return size


def make_cached(hub: Path, name: str = NAME) -> Path:
    """Lays a whole model into a cache of the Hub; returns the model's folder there."""
    root = hub / f"models--{name.replace('/', '--')}"
    snapshot, blobs = root / "snapshots" / COMMIT, root / "blobs"
    snapshot.mkdir(parents=True)
    make_weights(blobs / "5af571c")
    (blobs / "ee1c2f0").write_text("{}")
    for file, blob in (("model.safetensors", "5af571c"), ("config.json", "ee1c2f0")):
        (snapshot / file).symlink_to(Path("../../blobs") / blob)
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text(COMMIT)
    return root


def look(location: Path | str, hub: Path | None = None) -> FilesSeen:
    return Looker({"HF_HUB_CACHE": str(hub or "/nowhere")}).look(str(location))


def test_a_whole_folder_is_present(tmp_path: Path) -> None:
    size = make_model(tmp_path / "m")
    assert look(tmp_path / "m") == FilesSeen(str(tmp_path / "m"), "present", size)


def test_a_link_to_a_folder_of_links_is_as_good(tmp_path: Path) -> None:
    size = make_model(tmp_path / "store")
    (tmp_path / "linked").mkdir()
    for file in (tmp_path / "store").iterdir():
        (tmp_path / "linked" / file.name).symlink_to(file)
    (tmp_path / "m").symlink_to(tmp_path / "linked")
    assert look(tmp_path / "m") == FilesSeen(str(tmp_path / "m"), "present", size)


def test_what_is_not_there_is_absent(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    for name in ("never", "file/below", "dangling", "empty"):
        assert look(tmp_path / name).state == "absent", name


def test_a_shard_that_the_index_names_is_missed(tmp_path: Path) -> None:
    make_model(tmp_path, shards=3)
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    assert look(tmp_path).reason == "1 of its 3 weight files are missing or not whole"


def test_a_link_to_a_weight_file_that_is_gone_is_a_missing_file(tmp_path: Path) -> None:
    make_model(tmp_path)
    file = tmp_path / "model-00001-of-00002.safetensors"
    file.unlink()
    file.symlink_to(tmp_path / "gone")
    assert look(tmp_path).missing == 1


def test_a_file_that_is_still_being_copied_is_seen_by_its_header(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    make_weights(tmp_path / "model.safetensors", there_bytes=399)
    looker = Looker({})
    assert looker.look(str(tmp_path)).missing == 1
    make_weights(tmp_path / "model.safetensors")
    assert looker.look(str(tmp_path)).state == "present"


def test_a_header_that_is_cut_off_or_is_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    file = tmp_path / "model.safetensors"
    make_weights(file)
    whole = file.read_bytes()
    file.write_bytes(whole[:20])
    assert look(tmp_path).missing == 1
    file.write_bytes(b"\xff" * 100)
    assert look(tmp_path).state == "present", "what is no header says nothing of a length"


def test_an_index_that_is_cut_off_is_a_missing_file(tmp_path: Path) -> None:
    make_model(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(index.read_text()[:30])
    assert (look(tmp_path).state, look(tmp_path).missing) == ("partly", 1)


def test_a_headers_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_model(tmp_path)
    read: list[Path] = []
    real = model_files._length
    monkeypatch.setattr(model_files, "_length", lambda file: read.append(file) or real(file))  # type: ignore[func-returns-value]
    looker = Looker({})
    looker.look(str(tmp_path))
    looker.look(str(tmp_path))
    assert len(read) == 2, "one for each shard"


def test_a_single_file_is_a_location_too(tmp_path: Path) -> None:
    (tmp_path / "model-Q4_K_M.gguf").write_bytes(b"GGUF")
    assert look(tmp_path / "model-Q4_K_M.gguf").state == "present"


def test_what_can_not_be_read_is_unknown_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_model(tmp_path / "m")

    def refuse(folder: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refuse)
        seen = look(tmp_path / "m")
    assert (seen.state, seen.reason) == ("unknown", "it can't be read (Permission denied)")
    assert look("/models/\0").state == "unknown"


def test_a_folder_of_too_many_files_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_model(tmp_path)
    monkeypatch.setattr(model_files, "MOST_ENTRIES", 3)
    assert look(tmp_path).reason == "it can't be read (more than 3 files)"


def test_a_model_in_the_cache_of_the_hub_is_present(tmp_path: Path) -> None:
    root = make_cached(tmp_path)
    assert look(NAME, tmp_path) == FilesSeen(NAME, "present", (root / "blobs" / "5af571c").stat().st_size)
    assert look("Qwen/Qwen3-8B", tmp_path).state == "absent"


def test_a_download_that_goes_on_is_a_part(tmp_path: Path) -> None:
    root = make_cached(tmp_path)
    (root / "blobs" / "77aa.incomplete").write_bytes(b"1")
    assert look(NAME, tmp_path).reason == "a download of it has not ended"
    (root / "refs" / "main").unlink()
    assert look(NAME, tmp_path).state == "partly", "it has only just begun"


def test_a_snapshot_of_which_only_the_description_was_fetched_is_a_part(tmp_path: Path) -> None:
    root = make_cached(tmp_path)
    (root / "snapshots" / COMMIT / "model.safetensors").unlink()
    assert look(NAME, tmp_path).reason == "no weight files are there"


def test_a_model_without_the_revision_that_engines_take_is_absent(tmp_path: Path) -> None:
    root = make_cached(tmp_path)
    (root / "refs" / "main").write_text("another")
    assert look(NAME, tmp_path).state == "absent"


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.cache/huggingface/hub"),
        ({"HOME": "/home/ada", "HF_HOME": "/data/hf"}, "/data/hf/hub"),
        ({"HF_HOME": "/data/hf", "HF_HUB_CACHE": "/data/hub"}, "/data/hub"),
    ],
)
def test_the_cache_is_where_the_engine_looks(environment: dict[str, str], folder: str) -> None:
    assert hub_cache(environment) == Path(folder)


class Shelf:
    """What a watch looks at; counts how often."""

    def __init__(self) -> None:
        self.state: dict[str, str] = {}
        self.looked = 0
        self.news = 0

    def look(self, location: str) -> FilesSeen:
        self.looked += 1
        return FilesSeen(location, self.state.get(location, "absent"))  # type: ignore[arg-type]

    def tell(self) -> None:
        self.news += 1


def seen(watch: ModelFilesWatch) -> list[tuple[FilesSeen, ...]]:
    """What its newest look found; empty = it has not looked."""
    return [] if watch.newest is None else [watch.newest.found]


def run(shelf: Shelf, every_s: float, test: Callable[[ModelFilesWatch], None]) -> None:
    watch = ModelFilesWatch(shelf.look, shelf.tell, every_s)
    watch.start()
    try:
        test(watch)
    finally:
        watch.stop()
    assert not [one for one in threading.enumerate() if one.name == "model files"]


def test_nothing_is_said_before_somebody_asked() -> None:
    def test(watch: ModelFilesWatch) -> None:
        assert not seen(watch)
        watch.ask(())
        assert eventually(lambda: seen(watch), "it has looked") == [()]

    run(Shelf(), 600.0, test)


def test_a_new_question_is_looked_at_at_once_and_the_same_one_is_not() -> None:
    shelf = Shelf()

    def test(watch: ModelFilesWatch) -> None:
        watch.ask(("/a",))
        eventually(lambda: shelf.news == 1, "the first look is news")
        watch.ask(("/a",))
        watch.ask(("/a", "/b"))
        eventually(lambda: shelf.news == 2, "the second question is looked at")
        assert shelf.looked == 3

    run(shelf, 600.0, test)


def test_it_looks_again_and_only_a_difference_is_news() -> None:
    shelf = Shelf()

    def test(watch: ModelFilesWatch) -> None:
        watch.ask(("/a",))
        eventually(lambda: shelf.looked >= 5, "it looks again")
        assert shelf.news == 1
        shelf.state["/a"] = "present"
        eventually(lambda: shelf.news == 2, "what was copied meanwhile is seen")
        assert [one.state for found in seen(watch) for one in found] == ["present"]

    run(shelf, 0.02, test)
