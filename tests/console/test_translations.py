"""The Chinese catalogue is whole, and compiled ones are made where they are missing."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import polib
import pytest
from django.utils import translation

from controlplane.console import translations
from tests.console import messages, sentence_source

PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|\{\w+\}")


def test_every_string_of_the_program_is_in_the_catalogue_and_translated() -> None:
    catalogue = {(entry.msgid, entry.msgid_plural): entry for entry in polib.pofile(str(messages.CATALOGUE))}
    wanted = messages.all_messages()
    missing = {message: place for message, place in wanted.items() if message not in catalogue}
    assert missing == {}, "run `python -m tests.console.messages`, then translate"
    unfinished = [key for key, entry in catalogue.items() if not entry.translated() or entry.fuzzy or entry.obsolete]
    assert unfinished == []
    assert set(catalogue) - set(wanted) == set(), "run `python -m tests.console.messages` to drop what is unused"


def test_every_sentence_of_the_program_is_in_its_catalogue_and_translated() -> None:
    catalogue = {(entry.msgid, entry.msgctxt == "part"): entry for entry in polib.pofile(str(messages.SAID))}
    wanted = {(found.text, found.part): place for found, place in sentence_source.templates().items()}
    missing = {sentence: place for sentence, place in wanted.items() if sentence not in catalogue}
    assert missing == {}, "run `python -m tests.console.messages`, then translate"
    unfinished = [key for key, entry in catalogue.items() if not entry.translated() or entry.fuzzy or entry.obsolete]
    assert unfinished == []
    assert set(catalogue) - set(wanted) == set(), "run `python -m tests.console.messages` to drop what is unused"


@pytest.mark.parametrize("path", [messages.CATALOGUE, messages.SAID])
def test_a_translation_has_the_placeholders_of_its_string(path: Path) -> None:
    for entry in polib.pofile(str(path)):
        for text in entry.msgstr_plural.values() if entry.msgid_plural else [entry.msgstr]:
            found, wanted = set(PLACEHOLDER.findall(text)), set(PLACEHOLDER.findall(entry.msgid_plural or entry.msgid))
            assert found == wanted, entry.msgid


def test_a_stale_catalogue_is_compiled_once(tmp_path: Path) -> None:
    folder = tmp_path / "zh_Hans" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    shutil.copy(messages.CATALOGUE, folder / "django.po")
    assert translations.compile_stale(tmp_path) == [folder / "django.mo"]
    assert translations.compile_stale(tmp_path) == []


@pytest.mark.parametrize(("language", "word"), [("en", "Deployments"), ("zh-hans", "部署")])
def test_the_console_speaks_both_languages(language: str, word: str) -> None:
    with translation.override(language):
        assert translation.gettext("Deployments") == word
