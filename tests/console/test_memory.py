from __future__ import annotations

import pytest

from controlplane.console import memory

GIB = 1024**3


def make_observed(used: int | None = 70, foreign: int = 0) -> dict[str, object]:
    return {
        "memory_total_bytes": 80 * GIB,
        "memory_used_bytes": None if used is None else used * GIB,
        "foreign_processes": [{"pid": 1, "name": "x", "used_bytes": foreign * GIB}] if foreign else [],
    }


def sizes(parts: list[memory.Part]) -> dict[str, float]:
    return {part.kind: part.size_bytes / GIB for part in parts}


def test_the_stack_shows_weights_kv_and_what_is_left() -> None:
    replica = ({"weights_bytes": 20 * GIB, "kv_cache_bytes": 40 * GIB}, 0.25)
    found = memory.parts(make_observed(used=66), [replica])
    assert sizes(found) == {"weights": 20, "kv": 10, "reserved": 30, "used": 6, "free": 14}
    assert sum(part.share for part in found) == pytest.approx(1.0)


def test_the_rest_is_called_what_is_known_of_it() -> None:
    full, starting = {"weights_bytes": 20 * GIB, "kv_cache_bytes": 40 * GIB}, {"weights_bytes": 0}
    labels = [memory.parts(make_observed(), held) for held in ([(full, 0.5)], [(starting, None)], [])]
    assert [next(part.label for part in found if part.kind == "used") for found in labels] == [
        "Activations and graphs", "Engine, not told apart", "Other",
    ]  # fmt: skip


def test_what_a_replica_claims_is_cut_to_what_the_card_says() -> None:
    replica = ({"weights_bytes": 60 * GIB, "kv_cache_bytes": 60 * GIB}, 0.0)
    assert sizes(memory.parts(make_observed(used=70), [replica])) == {"weights": 60, "reserved": 10, "free": 10}


def test_processes_that_are_not_ours_are_shown_apart() -> None:
    assert sizes(memory.parts(make_observed(used=33, foreign=31), [])) == {"foreign": 31, "used": 2, "free": 47}


def test_an_unknown_total_gives_no_stack_and_unknown_use_no_free_part() -> None:
    assert memory.parts({}, []) == []
    replica = ({"weights_bytes": 20 * GIB}, None)
    assert sizes(memory.parts(make_observed(used=None), [replica])) == {"weights": 20}


def test_the_accelerators_of_a_node_are_one_stack() -> None:
    replica = ({"weights_bytes": 20 * GIB, "kv_cache_bytes": 40 * GIB}, 0.5)
    cards = [memory.parts(make_observed(used=66), [replica]), memory.parts(make_observed(used=10), [])]
    found = memory.joined(cards)
    assert sizes(found) == {"weights": 20, "kv": 20, "reserved": 20, "used": 16, "free": 84}
    assert [part.kind for part in found] == ["weights", "kv", "reserved", "used", "free"]
    assert (memory.used_bytes(found) / GIB, memory.total_bytes(found) / GIB) == (76, 160)
    assert {part.label for part in found if part.kind == "used"} == {"Engines and other"}
    assert memory.joined([]) == []
