from __future__ import annotations

import pytest

from controlplane.lib.masking import mask


@pytest.mark.parametrize(
    "line",
    [
        "using hwr-Abcdefghijklmnop1234567890",
        "Authorization: Bearer abcdef0123456789",
        "api_key=abcdefgh, model=x",
        "https://example.org/?token=abcdefgh&x=1",
        "HF token hf_abcdefghijklmnopqrstuv",
    ],
)
def test_what_looks_like_a_secret_is_hidden(line: str) -> None:
    assert "abcdef" not in mask(line) and "Abcdef" not in mask(line)


@pytest.mark.parametrize("line", ["loaded 12 tokens", "the token=x", "sk-short", "block_size=128, seed=0"])
def test_ordinary_lines_stay_as_they_are(line: str) -> None:
    assert mask(line) == line


def test_a_known_secret_is_hidden_whatever_it_looks_like() -> None:
    assert mask("given s3cr3t twice: s3cr3t", ["", "s3cr3t"]) == "given ••• twice: •••"
