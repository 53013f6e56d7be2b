from __future__ import annotations

from dataclasses import dataclass

import pytest

from controlplane.lib import wire


@dataclass(frozen=True)
class Note:
    text: str
    number: int = 0


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'{"text": 1}',
        b'{"text": "a", "number": "b"}',
        b'{"text": "\xff"}',
        b'{"text": "\\ud800"}',
        b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"text": "a", "unknown": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_whatever_does_not_fit_is_one_kind_of_error(raw: bytes) -> None:
    with pytest.raises(wire.WireError, match="Note"):
        wire.decode(raw, Note)


def test_unknown_fields_are_ignored() -> None:
    assert wire.decode(b'{"text": "a", "more": [1]}', Note) == Note("a")
