"""What docs/rest.md says of the websocket is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controlplane import asgi, serve
from controlplane.domain import access
from controlplane.domain.samples import SAMPLE_FIELDS, SUBJECT_KINDS
from controlplane.telemetry import consumers, frames

TOLD = (Path(__file__).resolve().parents[1] / "docs" / "rest.md").read_text()
LIVE = TOLD.split("## Live data")[1]


def test_every_field_of_a_sample_is_named() -> None:
    plain = [name for name in SAMPLE_FIELDS if not re.search(r"_p\d\d$", name)]
    families = {re.sub(r"p\d\d$", "", name) for name in SAMPLE_FIELDS} - set(plain)
    assert [name for name in [*plain, *sorted(families)] if f"`{name}`" not in LIVE] == []


def test_every_frame_subject_and_close_code_is_named() -> None:
    sources = [Path(str(module.__file__)).read_text() for module in (frames, consumers)]
    kinds = {kind for source in sources for kind in re.findall(r'plain\(\s*type="(\w+)"', source)}
    codes = {code for source in sources for code in re.findall(r'frames\.error\(\s*"(\w+)"', source)}
    assert {"subscribed", "history", "sample", "log", "event", "error"} == kinds
    closes = {str(value) for name, value in (vars(consumers) | vars(asgi)).items() if name.startswith("CLOSE_")}
    assert len(codes) >= 6 and len(closes) == 4
    subjects = {f"{kind}:" for kind in (*SUBJECT_KINDS, "log")}
    assert [word for word in kinds | codes | closes if f"`{word}`" not in LIVE and f"| {word} |" not in LIVE] == []
    assert [word for word in subjects if f"`{word}" not in LIVE] == []


@pytest.mark.parametrize(
    "sentence",
    [
        f"{frames.MOST_SUBJECTS} subjects a socket",
        f"{frames.MOST_NAMED} in one frame",
        f"{serve.LONGEST_FRAME_BYTES // 1024} KiB a frame",
        f"{consumers.MOST_REQUESTS} frames in {consumers.REQUESTS_S:.0f} s",
        f"{consumers.MOST_ANSWERS} answers unread",
        f"is {frames.MOST_HISTORY_S} at most",
        f"asked again every {consumers.ASK_AGAIN_S:.0f} s",
        f"logs need an *{access.LOGS}*",
        f"an\n*{access.ACCOUNT_EVENTS}*",
    ],
)
def test_limits_and_roles_are_those_of_the_code(sentence: str) -> None:
    assert sentence in LIVE
