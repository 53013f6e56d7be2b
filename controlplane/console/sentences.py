"""Sentences that come in English from below (journal, decisions, reasons, refusals) in the reader's language.

What is stored and what REST answers stays English. The catalogue `locale/<language>/LC_MESSAGES/said.po` has a template
for each sentence that the program can say, with named holes for its values, and the template's translation; both are
found in the source by `python -m tests.console.messages`. Entries with the context `part` stand inside others only.

Guarantees
    An unknown sentence comes back as it is; names and numbers are never changed. In English a sentence stays as it is
    but for stored names (`kv_share`), which become words (share of the KV cache). Time grows with the text's length
    times the number of templates: a template is compared from its start by plain searches that never go back. What
    would take too long (`LONGEST`, `_MOST_TRIALS`) stays English.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import polib
from django.conf import settings
from django.utils.translation import get_language, gettext, to_locale

from controlplane.console import words
from engine_adapters import registry

ENGLISH = "en"
LONGEST = 2000  # characters; what is longer is no sentence
_REMEMBERED = 4096
_MOST_TRIALS = 20_000  # comparisons for one text
DEEPEST = 4
_MOST_PIECES = 40
_HOLE = re.compile(r"\{(\w+)\}")
_NAME = re.compile(r"[\w.\[\]]{1,80}")
_LETTERS = re.compile(r"[A-Za-z]{2}")
_SEPARATORS = {"; ": "；", ", ": "，"}  # in English -> in a language that joins without spaces

# Holes that hold words of Headworks, and holes that hold further sentences or parts of them. All others hold names,
# numbers and other people's words, which stay as they are.
WORDS = frozenset(
    {"desired_state", "engine", "field", "kind", "new", "object_kind", "old", "owner_kind", "role", "role2"}
)
PHRASES = frozenset(
    {"deciding", "drained", "exit_text", "fields", "message", "outdated", "parts", "reason", "right", "shown", "text",
     "told", "waiting_why", "what", "why", "wrong"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Template:
    """A sentence as texts around holes: `texts` has one more than `holes`, and its first or last may be empty."""

    texts: tuple[str, ...]
    holes: tuple[str, ...]
    translation: str

    def read(self, text: str) -> dict[str, str] | None:
        """Returns the values of the holes, None when the text is not of this template. No hole is empty."""
        first, last = self.texts[0], self.texts[-1]
        if not self.holes:
            return {} if text == first else None
        if not text.startswith(first) or not text.endswith(last):
            return None
        at, end = len(first), len(text) - len(last)
        values: dict[str, str] = {}
        for name, following in zip(self.holes, self.texts[1:-1], strict=False):
            found = text.find(following, at + 1, end)
            if found < 0:
                return None
            values[name] = text[at:found]
            at = found + len(following)
        if at >= end:
            return None
        values[self.holes[-1]] = text[at:end]
        return values


Shelf = tuple[str, str]  # the word a text begins with and the character it ends with; "" = a hole is there


@dataclass(slots=True)
class Book:
    """The templates of one language, on shelves so that few have to be compared."""

    language: str = ""
    sentences: dict[Shelf, list[Template]] = field(default_factory=dict)
    parts: dict[Shelf, list[Template]] = field(default_factory=dict)

    def candidates(self, text: str, *, part: bool) -> Iterable[Template]:
        """Yields what the text may be of."""
        word, end = _first_word(text), text[-1:]
        for shelves in (self.sentences, self.parts) if part else (self.sentences,):
            for shelf in ((word, end), (word, ""), ("", end), ("", "")):
                yield from shelves.get(shelf, ())


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text may mean: in the reader's language, whether nothing in it stayed English, and how many characters
    were taken over as names and values. The reading that takes over the least is the one that was meant."""

    text: str
    whole: bool
    taken_over: int

    @property
    def rank(self) -> tuple[int, bool]:
        return -self.taken_over, self.whole


@dataclass(slots=True)
class Reader:
    """Translates one text; `trials` bounds the work, and what was read once is not read again."""

    book: Book
    trials: int = _MOST_TRIALS
    _read: dict[str, Reading | None] = field(default_factory=dict)

    def sentence(self, text: str, depth: int = 0, *, part: bool = False) -> Reading | None:
        """Returns the best reading; None for a text that is not known."""
        readings = []
        for template in self.book.candidates(text, part=part):
            self.trials -= 1
            if self.trials < 0:
                break
            values = template.read(text)
            if values is not None:
                readings.append(self._filled(template, values, depth))
        return max(readings, key=lambda one: one.rank, default=None)

    def _filled(self, template: Template, values: Mapping[str, str], depth: int) -> Reading:
        told = {name: self._value(name, value, depth) for name, value in values.items()}
        return Reading(
            _HOLE.sub(lambda hole: told[hole[1]].text, template.translation),
            all(one.whole for one in told.values()),
            sum(one.taken_over for one in told.values()),
        )

    def _value(self, name: str, value: str, depth: int) -> Reading:
        if name == "unit":
            return Reading(gettext(value), True, len(value))
        if name in WORDS:
            return _word(value) or Reading(value, True, len(value))
        if name in PHRASES and depth < DEEPEST and _LETTERS.search(value):
            return self._phrase(value, depth + 1)
        return Reading(value, True, len(value))

    def _phrase(self, text: str, depth: int) -> Reading:
        readings = [self._list(text, separator, depth) for separator in _SEPARATORS] + [self._known(text, depth)]
        known = [one for one in readings if one is not None]
        return max(known, key=lambda one: one.rank, default=_unknown(text))

    def _list(self, text: str, separator: str, depth: int) -> Reading | None:
        pieces = text.split(separator)
        if not 1 < len(pieces) <= _MOST_PIECES:
            return None
        told = self._members(pieces, separator, depth)
        if not any(one.whole for one in told):
            return None
        *others, last = (one.text for one in told)
        between = separator if self.book.language == ENGLISH else _SEPARATORS[separator]
        joined = between.join([*(one.removesuffix("。") for one in others), last])
        return Reading(joined, all(one.whole for one in told), sum(one.taken_over for one in told))

    def _members(self, pieces: list[str], separator: str, depth: int) -> list[Reading]:
        """Reads a list whose members may have the separator inside: as few pieces a member as make sense."""
        told: list[Reading] = []
        at = 0
        while at < len(pieces):
            for taken in (1, 2, 3):
                found = self._known(separator.join(pieces[at : at + taken]), depth)
                if found and found.whole:
                    break
            else:
                taken, found = 1, self._known(pieces[at], depth)
            told.append(found or _unknown(pieces[at]))
            at += taken
        return told

    def _known(self, text: str, depth: int) -> Reading | None:
        if text not in self._read:
            self._read[text] = _word(text) or self.sentence(text, depth, part=True)
        return self._read[text]


def said(text: str) -> str:
    """Returns a sentence of the program in the reader's language; one that is not known as it is."""
    language = get_language() or ENGLISH
    if not text or len(text) > LONGEST:
        return text
    return _said(ENGLISH if language.startswith(ENGLISH) else language, text)


def said_part(text: str) -> str:
    """Returns a part of a sentence, such as why a node was passed over, as `said` does a whole one."""
    language = get_language() or "en"
    if not text or language.startswith("en") or len(text) > LONGEST:
        return text
    return _said(language, text, part=True)


def said_right(text: str) -> str:
    """Returns what would be right in a field in the reader's language: one, or several as `name: what; name: what`."""
    language = get_language() or "en"
    if not text or language.startswith("en") or len(text) > LONGEST:
        return text
    whole = _said(language, text, part=True)
    if whole != text:
        return whole
    told = []
    for piece in text.split("; "):
        name, colon, right = piece.partition(": ")
        if colon and _NAME.fullmatch(name):
            told.append(f"{name}：{said_right(right)}")
        else:
            told.append(_said(language, piece, part=True))
    return "；".join(told)


def is_foreign(text: str) -> bool:
    """Returns whether a text is English on a page that is not: it then says so to screen readers."""
    return not (get_language() or "en").startswith("en") and bool(_LETTERS.search(text)) and max(text) < "\u2e80"


@lru_cache(maxsize=_REMEMBERED)
def _said(language: str, text: str, *, part: bool = False) -> str:
    found = Reader(_book(language)).sentence(text, part=part)
    return found.text if found else text


@lru_cache(maxsize=8)
def _book(language: str) -> Book:
    if language == ENGLISH:  # any catalogue has what is said in English
        return book(_entries("zh-hans"), language)
    return book(_entries(language), language)


def _entries(language: str) -> Iterable[polib.POEntry | polib.MOEntry]:
    for place in settings.LOCALE_PATHS:
        folder = Path(place) / to_locale(language) / "LC_MESSAGES"
        if (folder / "said.mo").exists():
            return polib.mofile(str(folder / "said.mo"))
        if (folder / "said.po").exists():
            return polib.pofile(str(folder / "said.po"))
    return ()


def book(entries: Iterable[polib.POEntry | polib.MOEntry], language: str = "") -> Book:
    """Returns the templates of a catalogue; what is not translated is left out. In English each says itself."""
    made = Book(language)
    for entry in entries:
        if not entry.msgid or not entry.msgstr:
            continue
        template = compiled(entry.msgid, entry.msgid if language == ENGLISH else entry.msgstr)
        shelves = made.parts if entry.msgctxt == "part" else made.sentences
        shelves.setdefault(_shelf(template), []).append(template)
    return made


def compiled(template: str, translation: str) -> Template:
    """Returns a template with its holes found."""
    pieces = _HOLE.split(template)
    return Template(tuple(pieces[::2]), tuple(pieces[1::2]), translation)


def _shelf(template: Template) -> Shelf:
    first, last = template.texts[0], template.texts[-1]
    whole = " " in first or not template.holes  # the word is not cut by a hole
    return _first_word(first) if whole else "", last[-1:]


def _first_word(text: str) -> str:
    return text.partition(" ")[0]


def _word(text: str) -> Reading | None:
    """Returns the word for a stored name that stands inside a sentence: a state, a role, a field, a setting."""
    name = text.removeprefix("settings.")
    if name != text:
        fields = (field for engine in registry.names() for field in registry.get(engine).fields())
        word = next((gettext(field.label) for field in fields if field.name == name), text)
    else:
        word = words.inside(text)
    if text[:1].islower() and word[:2].istitle():  # in the middle of a sentence
        word = word[:1].lower() + word[1:]
    return Reading(word, True, 0) if word != text else None


def _unknown(text: str) -> Reading:
    return Reading(text, False, len(text))
