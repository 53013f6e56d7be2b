from __future__ import annotations

import json
from pathlib import Path

import pytest

from controlplane.embedded.masking import MASK, is_secret_name, known_secrets, mask, without_secrets


@pytest.mark.parametrize("name", ["password", "HEADWORKS_SECRET_KEY", "gateway_key", "api_token", "key", "HF_TOKEN"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["HEADWORKS_SECRET_KEY_FILE", "max_tokens", "tokens_per_s", "monkey", "username"])
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "text",
    [
        "hw-XXOYBjkrcQqy_4ykyX7flM8Lyh2I",
        "hwr-XXOYBjkrcQqy_4ykyX7flM8Lyh2I",
        "Authorization: Bearer abcdefgh12345678",
        "postgresql://user:hunter2hunter2@db/hw",
        "host=db password=hunter2hunter2",
        "401 for sk-XXOYBjkrcQqy_4ykyX7flM8Lyh2I",
        "token hf_XXOYBjkrcQqy4ykyX7flM8Lyh2I of the hub",
        "GET /v1/models?api_key=hunter2hunter2&limit=5",
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    shown = mask(text)
    assert shown != text
    for part in ("XXOY", "abcdefgh", "hunter2"):
        assert part not in shown


def test_words_and_names_stay_readable() -> None:
    text = "replica hw-1 of smollm2 became ready on http://127.0.0.1:8080/v1"
    assert mask(text) == text


def test_fields_with_secrets_are_hidden_at_any_depth() -> None:
    shown = without_secrets({"desired": {"key": "abc", "replica_id": "r1"}, "list": [{"token": "t"}]})
    assert shown == {"desired": {"key": MASK, "replica_id": "r1"}, "list": [{"token": MASK}]}


def test_secrets_are_known_from_all_their_files(tmp_path: Path) -> None:
    (tmp_path / "first-run.json").write_text(json.dumps({"username": "administrator", "password": "p-123456"}))
    (tmp_path / "secret-key").write_text("s-123456\n")
    (tmp_path / "elsewhere").write_text("f-123456\n")
    record = tmp_path / "node" / "n" / "replicas" / "r" / "record.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"desired": {"key": "r-123456"}}))
    environ = {"HEADWORKS_ADMIN_PASSWORD": "e-123456", "DB_FILE": str(tmp_path / "elsewhere"), "HOME": "/root/home"}
    found = known_secrets(tmp_path, environ)
    assert found == {"p-123456", "s-123456", "f-123456", "r-123456", "e-123456"}
