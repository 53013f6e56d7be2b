"""No page in Chinese leaves a sentence in English, wherever it comes from."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from django.conf import settings
from django.test import Client

from controlplane.deployments.services import deployments as services
from controlplane.domain.errors import RefusedError
from controlplane.fleet.services import nodes
from controlplane.journal.services.record import Actor
from tests.console import making
from tests.console.calling import HX, make_client
from tests.console.test_pages import ADMINISTRATORS, OPERATORS, PAGES

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

ADA = Actor("user", "ada")
# what people have written themselves, and names
OURS = (
    "Query understanding",
    "Llama 3.3 70B Instruct",
    "Memory errors on card 6, exchange planned for Monday",
    "Fewer seats: TPOT p95 was above 80 ms in the evening",
)
ENGLISH = re.compile(r"(?:\b[A-Za-z][A-Za-z']*[,;:]? ){3}[A-Za-z']+")


class _Texts(HTMLParser):
    """The texts that a reader sees or hears, without code, logs and what says that it is English."""

    SILENT = frozenset({"code", "kbd", "option", "pre", "script", "style"})
    SPOKEN = frozenset({"alt", "aria-label", "data-confirm", "placeholder", "title"})
    QUIET = frozenset({"code-tag", "log-lines", "mono"})
    VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "use", "rect", "wbr"})

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.texts += [value for name, value in attrs if name in self.SPOKEN and value and not self._is_silent()]
        silent = tag in self.SILENT or bool(self.QUIET & set((values.get("class") or "").split()))
        if tag not in self.VOID:
            self._open.append((tag, silent))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not self._is_silent():
            self.texts.append(data)

    def _is_silent(self) -> bool:
        return any(silent for _, silent in self._open)


def test_no_page_leaves_a_sentence_in_english() -> None:
    making.make_fleet()
    make_more_journal()
    client = make_chinese()
    left: dict[str, list[str]] = {}
    for path in (*PAGES, *OPERATORS, *ADMINISTRATORS):
        response = client.get(path)
        if response["Content-Type"].startswith("text/html") and (found := english(response.content.decode())):
            left[path] = found
    assert left == {}


def test_a_failed_replica_tells_why_in_chinese() -> None:
    making.make_fleet()
    text = make_chinese().get("/replicas/k9d2x7c4b6vn/").content.decode()
    assert "一个 131072 个 token 的请求需要 10.00 GiB 的 KV 缓存" in text
    assert making.FAILURE not in text


def test_a_refused_form_says_in_chinese_what_would_be_right() -> None:
    making.make_fleet()
    values = {"engine": "vllm", "name": "Not A Name", "variant": "qwen3-8b/bf16", "replicas": "1", "step": "save"}
    values |= {"settings.max_num_seqs": "0", "pool": "nowhere", "tensor_parallel": "1", "pipeline_parallel": "1"}
    response = make_chinese().post("/deployments/new/", values)
    text = response.content.decode()
    assert "首尾须为字母或数字" in text and "最小值为 1" in text and "没有资源池 nowhere" in text
    assert english(text) == []


def test_a_refused_dialog_and_a_missing_object_say_it_in_chinese() -> None:
    making.make_fleet()
    client = make_chinese()
    dialog = client.post("/deployments/llama-70b/do/scale/", {"replicas": "5000"}, headers=HX)
    missing = client.get("/deployments/nobody/")
    assert (dialog.status_code, missing.status_code) == (422, 404)
    assert "llama-70b 不能有 5000 个副本" in dialog.content.decode()
    assert "没有部署 nobody。" in missing.content.decode()
    assert english(dialog.content.decode()) == english(missing.content.decode()) == []


def test_marks_of_a_chart_tell_decisions_in_chinese() -> None:
    making.make_fleet()
    marks = make_chinese().get("/deployments/llama-70b/marks/").json()["marks"]
    texts = [text for mark in marks for text in (mark["title"], mark["text"])]
    assert [text for text in texts if ENGLISH.search(text) and text not in OURS] == []


def test_what_stays_english_says_so() -> None:
    making.make_fleet()
    making.make_event("node.moved", "node", "gpu-01", "Nobody has ever said this.", ago_s=1)
    text = make_chinese().get("/journal/").content.decode()
    assert '<span lang="en">Nobody has ever said this.</span>' in text
    assert '<span lang="en">' not in make_client("viewer").get("/journal/").content.decode()


def make_chinese() -> Client:
    client = make_client()
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = "zh-hans"
    return client


def make_more_journal() -> None:
    """What people do, written by the services themselves."""
    services.scale(actor=ADA, name="llama-70b", replicas=2)
    services.set_frozen(actor=ADA, name="llama-70b", frozen=True)
    services.clone(actor=ADA, name="llama-70b", new_name="llama-copy")
    services.stop(actor=ADA, name="qwen3-coder")
    services.delete(actor=ADA, name="llama-copy")
    nodes.cordon(actor=ADA, name="gpu-01")
    nodes.drain(actor=ADA, name="gpu-03")
    with pytest.raises(RefusedError):
        nodes.move(actor=ADA, name="gpu-01", pool="nowhere")


def english(page: str) -> list[str]:
    """Returns the runs of four or more English words that a reader of the page meets."""
    reader = _Texts()
    reader.feed(page)
    texts = [text for text in reader.texts if not any(one in text for one in OURS)]
    return [text.strip() for text in texts if ENGLISH.search(text)]
