"""Which models' files are on a node, on its page."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.fleet.models import ModelFiles, Node
from tests.console import making
from tests.console.calling import make_client

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]


@pytest.fixture
def client() -> Client:
    making.make_model_files(making.make_node("gpu-01"))
    return make_client("viewer")


def text_of(client: Client, path: str = "/nodes/gpu-01/", **headers: str) -> str:
    page = client.get(path, headers=headers).content.decode()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_each_location_says_what_is_there_and_what_is_wrong(client: Client) -> None:
    page = text_of(client)
    assert re.search(r"Model files Looked for \d+ s ago", page)
    assert "/srv/models/llama-3.3-70b-instruct/fp8 There 67.7 GiB –" in page
    assert "/srv/models/llama-3.3-70b-instruct/bf16 In part 81.0 GiB 7 of its 17 weight files are missing" in page
    assert "Qwen/Qwen3-8B Not there – –" in page
    assert "/mnt/archive/qwen3-8b/bf16 Not known – it can&#x27;t be read (Permission denied)" in page
    assert "too long ago" not in page


def test_a_look_of_long_ago_is_said_not_to_count(client: Client) -> None:
    Node.objects.update(files_looked_at=timezone.now() - timedelta(minutes=3))
    assert "That is too long ago to count" in text_of(client)


def test_a_node_that_does_not_look_has_no_such_panel(client: Client) -> None:
    ModelFiles.objects.all().delete()
    assert "Model files" not in text_of(client)


def test_the_reasons_are_told_in_the_readers_language(client: Client) -> None:
    client.cookies["django_language"] = "zh-hans"
    page = client.get("/nodes/gpu-01/").content.decode()
    assert "weight files" not in page and "模型文件" in page
