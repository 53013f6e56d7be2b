"""Every string of the program that gettext is asked for, found without gettext's own tools.

As a program (`python -m tests.console.messages`) it adds what is missing to the Chinese catalogues, untranslated, and
drops what is no longer used. `django.po` has what pages ask for, `said.po` what is said below (`sentence_source`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import polib
from django.utils.translation.template import templatize

from tests.console import sentence_source

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
SAID = CATALOGUE.with_name("said.po")
HOLE = re.compile(r"\{(\w+)\}")
_NAMES = {"_", "gettext", "gettext_lazy", "gettext_noop"}
_PLURALS = {"ngettext", "ngettext_lazy"}

Message = tuple[str, str]  # singular, plural or ""


def all_messages() -> dict[Message, str]:
    """Message -> where it is."""
    found: dict[Message, str] = {}
    for path in sorted((ROOT / "controlplane").rglob("*.py")):
        _add(found, path, _of_python(path.read_text(encoding="utf-8")))
    for path in sorted((ROOT / "templates").rglob("*.html")):
        _add(found, path, _of_template(path.read_text(encoding="utf-8")))
    found.update(_of_engines())
    return found


def _add(found: dict[Message, str], path: Path, messages: Iterator[Message]) -> None:
    for message in messages:
        found.setdefault(message, str(path.relative_to(ROOT)))


def _of_python(source: str) -> Iterator[Message]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        if node.func.id in _NAMES and texts:
            yield texts[0], ""
        elif node.func.id in _PLURALS and len(texts) >= 2:
            yield texts[0], texts[1]


def _of_template(source: str) -> Iterator[Message]:
    code = templatize(source)
    for match in re.finditer(r"\b(gettext|ngettext|_)\(", code):
        # templatize writes one call after another with blanks in between; ast reads the arguments exactly
        call = _call_at(code[match.start() :])
        if call is not None:
            yield from _of_python(call)


def _call_at(code: str) -> str | None:
    for end in (index + 1 for index, letter in enumerate(code) if letter == ")"):
        try:
            ast.parse(code[:end])
        except SyntaxError:
            continue
        return code[:end]
    return None


def _of_engines() -> dict[Message, str]:
    from engine_adapters import registry

    texts = [
        text
        for name in registry.names()
        for field in registry.get(name).fields()
        for text in (field.label, field.help, field.unit)
    ]
    return {(text, ""): "engine_adapters" for text in texts if text}


def update() -> None:
    """Brings the catalogues' entries in line with the program."""
    known = {(entry.msgid, entry.msgid_plural): entry for entry in _opened(CATALOGUE)}
    entries = []
    for message, place in sorted(all_messages().items(), key=lambda item: (item[1], item[0])):
        entry = known.get(message) or _new_entry(message)
        entry.occurrences = [(place, "")]
        entries.append(entry)
    _save(CATALOGUE, entries)
    _save(SAID, list(_said_entries(list(_opened(SAID)))))


def _said_entries(old: list[polib.POEntry]) -> Iterator[polib.POEntry]:
    known = {entry.msgid: entry for entry in old}
    renamed = {HOLE.sub("{}", entry.msgid): entry for entry in old}
    for found, place in sorted(sentence_source.templates().items(), key=lambda item: (item[1], item[0].text)):
        context = "part" if found.part else None
        entry = polib.POEntry(msgid=found.text, msgstr="", msgctxt=context, occurrences=[(place, "")])
        before = known.get(found.text) or renamed.get(HOLE.sub("{}", found.text))
        if before is not None:  # a value that has another name now keeps its translation
            names = dict(zip(HOLE.findall(before.msgid), HOLE.findall(found.text), strict=True))
            entry.msgstr = HOLE.sub(lambda hole: f"{{{names.get(hole[1], hole[1])}}}", str(before.msgstr))  # noqa: B023
        yield entry


def _opened(path: Path) -> polib.POFile:
    return polib.pofile(str(path)) if path.exists() else polib.POFile()


def _save(path: Path, entries: list[polib.POEntry]) -> None:
    catalogue = polib.POFile(wrapwidth=120)
    catalogue.metadata = {
        "Content-Type": "text/plain; charset=utf-8",
        "Language": "zh_Hans",
        "Plural-Forms": "nplurals=1; plural=0;",
    }
    catalogue.extend(entries)
    path.parent.mkdir(parents=True, exist_ok=True)
    catalogue.save(str(path))


def _new_entry(message: Message) -> polib.POEntry:
    if message[1]:
        return polib.POEntry(msgid=message[0], msgid_plural=message[1], msgstr_plural={0: ""})
    return polib.POEntry(msgid=message[0], msgstr="")


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    update()
