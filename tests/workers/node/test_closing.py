from __future__ import annotations

import pytest

from tests.workers.node.bench import Bench, Stream, eventually, make_replica

pytestmark = pytest.mark.services


def test_closing_lets_requests_finish_and_leaves_no_engine(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica("r1", token_s=0.05), make_replica("r2", ignores_term=True))
    ready = bench.wait_for("ready", "r1")
    bench.wait_for("ready", "r2")
    assert ready.url
    stream = Stream(ready.url, "hwr-r1", max_tokens=30)
    (bench.folder / "stop-all").write_text("10")
    assert stream.read_to_end().endswith(b"data: [DONE]\n\n")
    eventually((bench.folder / "stopped-all").exists, "everything is stopped")
    eventually(lambda: not (bench.folder / "stop-all").exists(), "the wish is taken away")
    assert not bench.processes("r1") and not bench.processes("r2")


def test_a_closed_node_starts_nothing_until_its_worker_starts_anew(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica("r1"))
    bench.wait_for("ready")
    (bench.folder / "stop-all").write_text("0")
    eventually((bench.folder / "stopped-all").exists, "everything is stopped")
    bench.want(make_replica("r2"))
    eventually(lambda: (one := bench.report()) and one.desired_version == bench.version, "the document is read")
    assert bench.seen("r2") is None
    bench.stop()
    bench.start()
    bench.wait_for("ready", "r2")
    assert not (bench.folder / "stopped-all").exists()
    bench.want_stop("r2", 0.0)
    bench.wait_for("stopped", "r2")


def test_a_node_without_engines_is_closed_at_once(bench: Bench) -> None:
    bench.start()
    (bench.folder / "stop-all").write_text("")
    eventually((bench.folder / "stopped-all").exists, "the node is closed")
