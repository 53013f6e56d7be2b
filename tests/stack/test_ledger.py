"""What was predicted of the first start stands beside what its engine measured, in REST and on the replica's page."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stack.stack_process import RunningStack

pytestmark = pytest.mark.stack
SUMS = ("weights_bytes", "kv_cache_bytes", "kv_cache_tokens")


def ledger_of(stack: RunningStack, replica: str) -> dict[str, Any]:
    """The replica's ledger, once it has what the engine measured."""
    found: dict[str, Any] = {}

    def is_measured() -> bool:
        status, row = stack.rest(f"/replicas/{replica}/ledger")
        assert status == 200, row
        found.update(row)
        return row["measured_at"] is not None

    assert stack.wait(is_measured), found
    return found


def test_a_started_engine_has_a_ledger_with_prediction_measurement_and_error(running_stack: RunningStack) -> None:
    replica = running_stack.replica()
    assert replica["state"] == "ready"
    row = ledger_of(running_stack, replica["id"])
    assert row["replica"] == replica["id"] and row["why_unknown"] == ""
    assert row["engine_version"] and row["accelerator"] and row["family"]
    for name in SUMS:
        predicted, measured = row["predicted"][name], row["measured"][name]
        assert predicted > 0 and measured > 0, name
        assert row["error"][name] == pytest.approx(measured / predicted - 1, abs=1e-4), name
    assert row["measured"]["sources"].keys() >= set(SUMS)


def test_the_prediction_of_the_first_start_was_near(running_stack: RunningStack) -> None:
    error = ledger_of(running_stack, running_stack.replica()["id"])["error"]
    assert abs(error["weights_bytes"]) < 0.05
    assert abs(error["kv_cache_bytes"]) < 0.03 and abs(error["kv_cache_tokens"]) < 0.03


def test_the_node_has_found_the_files_of_the_model_that_it_serves(running_stack: RunningStack) -> None:
    node = running_stack.replica()["node"]

    def found() -> list[dict[str, Any]]:
        status, answer = running_stack.rest(f"/nodes/{node}/model-files")
        assert status == 200, answer
        return [one for one in answer["results"] if one["state"] == "present" and one["size_bytes"] > 100_000_000]

    assert running_stack.wait(lambda: bool(found())), "269 MB of weights lie there"
    assert found()[0]["location"].startswith("/") and found()[0]["looked_at"]
