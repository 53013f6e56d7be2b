from __future__ import annotations

from pathlib import Path

from controlplane.embedded import waiting
from controlplane.embedded.layout import ROOT, Layout


def test_what_is_waited_for_comes_from_the_engine_that_wrote_last(tmp_path: Path) -> None:
    layout = Layout(ROOT, tmp_path, tmp_path)
    assert waiting.newest_words(layout) == ""
    folder = tmp_path / "node" / "n1" / "replicas" / "r1"
    folder.mkdir(parents=True)
    line = "(EngineCore pid=7) {} 11-30 01:39:19 [cpu.py:1] {}\n".format
    (folder / "engine.log").write_text(line("INFO", "Loading weights took 0.4 s") + line("WARNING", "Beware"))
    assert waiting.newest_words(layout) == ": Loading weights took 0.4 s"
