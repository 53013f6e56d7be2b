"""Every string of the program that gettext is asked for, found without gettext's own tools.

As a program (`python -m tests.console.messages`) it adds what is missing to the Chinese catalogue, untranslated, and
drops what is no longer used.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import polib
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
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
    """Brings the catalogue's entries in line with the program."""
    catalogue = polib.pofile(str(CATALOGUE)) if CATALOGUE.exists() else polib.POFile(wrapwidth=120)
    catalogue.wrapwidth = 120
    catalogue.metadata = {
        "Content-Type": "text/plain; charset=utf-8",
        "Language": "zh_Hans",
        "Plural-Forms": "nplurals=1; plural=0;",
    }
    known = {(entry.msgid, entry.msgid_plural): entry for entry in catalogue}
    wanted = all_messages()
    catalogue[:] = []
    for message, place in sorted(wanted.items(), key=lambda item: (item[1], item[0])):
        entry = known.get(message) or _new_entry(message)
        entry.occurrences = [(place, "")]
        catalogue.append(entry)
    CATALOGUE.parent.mkdir(parents=True, exist_ok=True)
    catalogue.save(str(CATALOGUE))


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
