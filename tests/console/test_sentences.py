"""Sentences from below in the reader's language: every template, with any values; what is unknown stays."""

from __future__ import annotations

import re
import string

import polib
import pytest
from django.utils import translation
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.console import sentences, words
from tests.console import messages, sentence_sinks, sentence_source

HOLE = messages.HOLE
ENTRIES = [entry for entry in polib.pofile(str(messages.SAID)) if entry.msgctxt is None]
BOOK = sentences.book(ENTRIES)
CHINESE = re.compile("[\u4e00-\u9fff]")
# names and numbers as they stand in sentences; no blank, so that a value never looks like the words around it
WORDS = {*words.FIELDS, *words.STATES, *words.OTHERS, "none"}  # of "none" there are sentences of their own
VALUES = st.text(string.ascii_lowercase + string.digits + "-_", min_size=1, max_size=12).filter(
    lambda text: text not in WORDS
)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.msgid)[:60])
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_a_filled_template_is_said_in_chinese_with_the_same_values(entry: polib.POEntry, data: st.DataObject) -> None:
    values = {name: data.draw(VALUES, label=name) for name in HOLE.findall(entry.msgid)}
    values["unit"] = "GiB"  # units are translated
    with translation.override("zh-hans"):
        assert sentences.said(_filled(entry.msgid, values)) == _filled(entry.msgstr, values)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.msgid)[:60])
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_in_english_a_filled_template_stays_as_it_is(entry: polib.POEntry, data: st.DataObject) -> None:
    values = {name: data.draw(VALUES, label=name) for name in HOLE.findall(entry.msgid)}
    with translation.override("en"):
        assert sentences.said(_filled(entry.msgid, values)) == _filled(entry.msgid, values)


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("The ladder llama-70b was changed: steps.", "The degradation ladder llama-70b was changed: steps."),
        (
            "The tier chat/batch was changed: queue_most, kv_share.",
            "The tier chat/batch was changed: requests that may wait, share of the KV cache.",
        ),
        (
            "The slo chat was changed: ttft_s, tpot_s.",
            "The objective chat was changed: time to first token, time per output token.",
        ),
        ("The key_tier shop/3 was made.", "The tier of the key shop/3 was made."),
        ("User bob was changed: role, is_active.", "User bob was changed: role, may log in."),
        ("Variant a/b was changed: size_bytes.", "Variant a/b was changed: size."),
        ("The tier kv_share/batch was removed.", "The tier kv_share/batch was removed."),
    ],
)
def test_stored_names_of_kinds_and_fields_are_words_in_english_too(stored: str, shown: str) -> None:
    with translation.override("en"):
        assert sentences.said(stored) == shown


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_what_is_not_a_sentence_of_the_program_stays_as_it_is(text: str) -> None:
    with translation.override("zh-hans"):
        known = any(template.read(text) is not None for template in BOOK.candidates(text, part=False))
        assert known or sentences.said(text) == text


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(["; ", ", ", ": ", "a", ". ", " → ", "No node can take it. ", " more: each ", "is "]),
        max_size=400,
    )
)
def test_hostile_texts_take_a_bounded_number_of_comparisons(pieces: list[str]) -> None:
    text = "No node can take it. " + "".join(pieces)[: sentences.LONGEST - 40] + "."
    with translation.override("zh-hans"):
        reader = sentences.Reader(BOOK)
        reader.sentence(text)
        assert reader.trials >= -sentences.DEEPEST * len(ENTRIES)


def test_a_text_that_is_too_long_stays_english() -> None:
    with translation.override("zh-hans"):
        fits = f"There is no node {'n' * 1900}."
        assert sentences.said(fits) != fits
        longer = f"There is no node {'n' * 2000}."
        assert sentences.said(longer) == longer


def test_english_readers_get_what_is_stored() -> None:
    with translation.override("en"):
        assert sentences.said("There is no node n1.") == "There is no node n1."


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("There is no deployment ready.", "没有部署 ready。"),
        ("This needs the role operator.", "这需要操作员角色。"),
        (
            "Changed desired_state stopped → running, settings.max_model_len not set → 2048.",
            "已更改：期望状态 已停止 → 运行中，上下文长度 未设置 → 2048。",
        ),
        ("There is a newer revision. Its successor is ready.", "有更新的修订版。其接替者已就绪。"),
        ("The engine ended by itself (signal SIGKILL).", "引擎自行退出（信号 SIGKILL）。"),
        (
            "No node can take it. gpu-1: has no free accelerator of 8 (6 taken, cordoned), and a replica needs 2; "
            "gpu-2 and 3 more: each is cordoned (fan; disk).",
            "没有节点能接纳它。gpu-1：8 个中没有空闲加速器（6 个已占用，停止调度），而一个副本需要 2 个；"
            "gpu-2 及另外 3 个：均已停止调度（fan; disk）。",
        ),
        (
            "This deployment can't be made as asked: variant: There is no variant 'x'; give it as model/variant.; "
            "settings.max_num_seqs: The smallest value is 1 requests.",
            "无法按要求创建此部署：变体：没有变体 'x'；请按“模型/变体”的形式填写；席位：最小值为 1 请求。",
        ),
        ("Nothing new is placed on n1 (the fan is broken).", "不再向 n1 放置新副本（the fan is broken）。"),
        ("ValueError: nobody knows this.", "ValueError: nobody knows this."),
    ],
)
def test_parts_and_words_inside_a_sentence_are_translated_and_names_are_not(sentence: str, told: str) -> None:
    with translation.override("zh-hans"):
        assert sentences.said(sentence) == told


def test_a_template_is_what_an_f_string_says_with_its_choices_written_out() -> None:
    source = '''
def tell(node, free, hot):
    """A docstring is not said."""
    who = f" by {node.changed_by}" if node.changed_by else ""
    logger.warning("Nobody is told this.")
    raise ValueError("This is for programmers.")
    text = f"Node {node.name} has {len(free)} of {', '.join(names)} and is {'hot' if hot else 'cold'}{who}."
    raise RefusedError("code", text)
'''
    assert {found.text for found in sentence_source.of_source(source)} == {
        f"Node {{name}} has {{free_count}} of {{names}} and is {heat}{who}."
        for heat in ("hot", "cold")
        for who in ("", " by {changed_by}")
    }


@pytest.mark.parametrize(
    "source",
    [
        'record.event(message="Sent to %s." % name)',
        'record.decision(why="; ".join(reasons))',
        'raise RefusedError("code", "no sentence")',
        'Reason("code", "It ended.", "read {}".format(path))',
        'def tell(n):\n    text = "some" if n else "none"\n    raise RefusedError("code", text)',
    ],
)
def test_a_sentence_that_no_template_could_stand_for_is_noticed(source: str) -> None:
    assert sentence_sinks.of_source(source, {"It ended."}) != []


def test_every_sentence_that_is_handed_on_has_a_template() -> None:
    known = {found.text for found in sentence_source.templates()}
    assert list(sentence_sinks.unfound(known)) == [], "make it one f-string with a full stop"


def test_every_hole_for_words_or_phrases_is_in_some_template() -> None:
    holes = {name for found in sentence_source.templates() for name in HOLE.findall(found.text)}
    assert holes >= sentences.WORDS | sentences.PHRASES


def test_every_verb_and_rule_has_a_word() -> None:
    verbs, rules = sentence_sinks.names()
    assert verbs - set(words.VERBS) == set()
    assert rules - set(words.RULES) == set()


def test_a_translation_is_chinese() -> None:
    plain = [entry.msgid for entry in polib.pofile(str(messages.SAID)) if not CHINESE.search(entry.msgstr)]
    assert set(plain) == {"{field} {old} → {new}", "{field}: {text}", "{nodes}: {reason}"}


def _filled(text: str, values: dict[str, str]) -> str:
    return HOLE.sub(lambda hole: values[hole[1]], text)
