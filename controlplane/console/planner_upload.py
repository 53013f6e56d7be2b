"""Files that are given to the planner: read once, and kept in so few words that an address holds them."""

from __future__ import annotations

import json

from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext as _

from controlplane.console import planner_form, planner_load, sentences
from controlplane.deployments.planner import subject
from controlplane.deployments.planner.fields import MOST_FILE_BYTES
from controlplane.domain.capacity import recorded, trace_file
from controlplane.domain.errors import RefusedError

_NOT_OF_THE_ADDRESS = frozenset({"csrfmiddlewaretoken", "leave_out", "trace_text"})


class UnreadError(Exception):
    """A file that can't be read; `problem` says why, in the reader's language."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def index(raw: bytes) -> str:
    """Returns what a question needs of an index of safetensors files. Raises UnreadError."""
    try:
        if len(raw) > MOST_FILE_BYTES:
            raise UnreadError(planner_form.too_large(MOST_FILE_BYTES))
        short = subject.reduced(planner_load.parse(raw.decode("utf-8")))
    except ValueError:
        raise UnreadError(_("This is not JSON that can be read.")) from None
    except RefusedError as error:
        raise UnreadError(sentences.said(error.message)) from None
    return json.dumps(short, separators=(",", ":"))


def trace(raw: bytes) -> str:
    """Returns what a question needs of a trace. Raises UnreadError."""
    try:
        if len(raw) > trace_file.MOST_BYTES:
            raise UnreadError(planner_form.too_large(trace_file.MOST_BYTES))
        found = trace_file.read(raw.decode("utf-8"))
    except ValueError:
        raise UnreadError(_("This is not text that can be read. Give CSV or JSON lines.")) from None
    except RefusedError as error:
        raise UnreadError(at_field(error.message, error.fields.get("trace", ""))) from None
    return json.dumps(recorded.as_values(found), separators=(",", ":"))


def read(sent: QueryDict, files: MultiValueDict[str, UploadedFile]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the values of a whole form that was sent with its files, and what is wrong with these."""
    values: dict[str, str] = {
        name: str(text) for name, text in sent.dict().items() if text and name not in _NOT_OF_THE_ADDRESS
    }
    values.pop(sent.get("leave_out", ""), None)
    problems: dict[str, str] = {}
    given = {name: file.read(MOST_FILE_BYTES + 1) for name, file in files.items() if isinstance(file, UploadedFile)}
    pasted = sent.get("trace_text", "").strip().encode("utf-8", "replace")
    for name, raw, kept in (
        ("safetensors", given.get("safetensors_file", b""), index),
        ("trace", given.get("trace_file", b"") or pasted, trace),
    ):
        try:
            values |= {name: kept(raw)} if raw else {}
        except UnreadError as unread:
            problems[name] = unread.problem
    for name in planner_load.left_out(values):
        values.pop(name, None)
    return values, problems


def at_field(message: str, right: str) -> str:
    """Returns what is wrong and what would be right, as it stands at a field."""
    told = sentences.said(message)
    return told if not right or right in message else f"{told} ({sentences.said_right(right)})"
