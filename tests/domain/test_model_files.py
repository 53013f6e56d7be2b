from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.model_files import FilesOnNode, FilesSeen, Folder, judge, on_node
from controlplane.domain.placement import NoRoom, place
from tests.domain.fleets import make_need, make_site, reasons_of_nodes
from tests.domain.test_placement_memory import placed

PATH = "/models/qwen"
HUB = "Qwen/Qwen3-8B"
SHARDS = {f"model-0000{number}-of-00003.safetensors": 100 for number in (1, 2, 3)}


def make_folder(*left_out: str, **fields: Any) -> Folder:
    """A whole folder without these files."""
    sizes = {"config.json": 600, "tokenizer.json": 9, **SHARDS}
    return Folder({name: size for name, size in sizes.items() if name not in left_out}, **fields)


def test_a_whole_folder_is_present_with_the_bytes_of_its_weights() -> None:
    assert judge(PATH, make_folder()) == FilesSeen(PATH, "present", 300)
    assert judge(PATH, make_folder(named=frozenset(SHARDS))) == FilesSeen(PATH, "present", 300)


def test_an_empty_folder_is_as_good_as_none() -> None:
    assert judge(PATH, Folder()).state == "absent"


@pytest.mark.parametrize("named", [None, frozenset(SHARDS)], ids=["by number", "by index"])
def test_a_weight_file_that_is_missing_is_counted(named: frozenset[str] | None) -> None:
    seen = judge(PATH, make_folder("model-00002-of-00003.safetensors", named=named))
    assert (seen.state, seen.size_bytes, seen.missing) == ("partly", 200, 1)
    assert seen.reason == "1 of its 3 weight files are missing or not whole"


def test_a_file_without_a_byte_or_cut_short_is_not_there_whole() -> None:
    sizes = {"config.json": 1, "a.safetensors": 0}
    assert judge(PATH, Folder(sizes)).missing == 1
    assert judge(PATH, make_folder(cut=frozenset({"model-00001-of-00003.safetensors"}))).missing == 1


def test_an_index_that_is_not_whole_is_a_missing_file() -> None:
    name = "model.safetensors.index.json"
    seen = judge(PATH, Folder({"config.json": 1, name: 7, **SHARDS}, cut=frozenset({name})))
    assert (seen.state, seen.missing) == ("partly", 1)


def test_a_cut_file_that_the_index_does_not_name_is_nobodys_loss() -> None:
    sizes = {"config.json": 1, "consolidated.safetensors": 5, **SHARDS}
    folder = Folder(sizes, named=frozenset(SHARDS), cut=frozenset({"consolidated.safetensors"}))
    assert judge(PATH, folder).state == "present"


def test_a_download_that_has_not_ended_is_a_part() -> None:
    assert judge(HUB, make_folder(unfinished=True)).reason == "a download of it has not ended"
    assert judge(HUB, Folder(unfinished=True)).state == "partly"


def test_weights_and_their_description_belong_together() -> None:
    assert judge(PATH, Folder({"config.json": 1})).reason == "no weight files are there"
    assert judge(PATH, Folder({"config.json": 1, "training_args.bin": 1})).state == "partly"
    assert judge(PATH, Folder({"model.safetensors": 1})).reason == "its config.json is not there"
    assert judge(PATH, Folder({"params.json": 1, "consolidated.safetensors": 1})).state == "present"
    assert judge(PATH, Folder({"model-Q4_K_M.gguf": 1})).state == "present"


def test_only_what_is_certain_keeps_an_engine_away() -> None:
    assert on_node(PATH, "absent", 0, "").refusal == f"has no files at {PATH}"
    told = on_node(PATH, "partly", 2, "2 of its 3 weight files are missing or not whole").refusal
    assert told == f"has only a part of the files at {PATH} (2 of its 3 weight files are missing or not whole)"
    assert not on_node(PATH, "partly", 0, "no weight files are there").refusal
    assert not on_node(PATH, "unknown", 0, "it can't be read (Permission denied)").refusal
    assert not on_node(HUB, "absent", 0, "").refusal


def test_a_node_with_the_files_goes_before_those_without_and_those_that_say_nothing() -> None:
    need = make_need(files={"b": FilesOnNode("present"), "c": FilesOnNode("absent")})
    found = placed(need, make_site("a"), make_site("b"), make_site("c"))
    assert found.node == "b" and found.why.endswith("The model's files are there already.")
    why = "would do, but b is better: the model's files are there already"
    assert reasons_of_nodes(found.rejected) == {"a": why, "c": why}


def test_a_node_that_has_to_fetch_the_files_is_told_so() -> None:
    need = make_need(files={"a": FilesOnNode("absent")})
    assert placed(need, make_site("a")).why.endswith(
        "It has no files of the model yet; the engine fetches them before it starts."
    )
    assert "files" not in placed(make_need(), make_site("a")).why


def test_a_node_without_the_files_at_a_path_is_rejected_with_the_path() -> None:
    files = {"a": on_node(PATH, "absent", 0, ""), "b": on_node(PATH, "present", 0, "")}
    found = placed(make_need(files=files), make_site("a"), make_site("b"))
    assert found.node == "b" and reasons_of_nodes(found.rejected) == {"a": f"has no files at {PATH}"}
    none = place(make_need(files=files), [make_site("a")], {})
    assert isinstance(none, NoRoom) and none.reasons == {"a": f"has no files at {PATH}"}
