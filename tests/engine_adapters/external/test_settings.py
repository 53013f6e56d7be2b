from __future__ import annotations

import pytest

from engine_adapters.external.argv import request_headers
from engine_adapters.external.settings import base_url, check_endpoint, key_problem, model_problem, url_problem


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.5:8000",
        "http://127.0.0.1:8000/v1",
        "https://llm.example.org",
        "https://llm.example.org/team-a/v1/",
        "http://[::1]:8000",
        "http://vllm:8000",
    ],
)
def test_an_endpoint_s_address_is_taken(url: str) -> None:
    assert url_problem(url) == ""


@pytest.mark.parametrize(
    "url",
    [
        "",
        "10.0.0.5:8000",
        "ftp://host",
        "http://",
        "http://host:99999",
        "http://host:0",
        "http://host:port",
        "http://user:secret@host",
        "http://host/v1?key=1",
        "http://host/#a",
        "http://ho st",
        "http://host\n",
        "http://169.254.169.254/latest",
        "http://0.0.0.0:8000",
        "http://[fe80::1]:80",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/",
        "http://[::1",
        "file:///etc/passwd",
        "javascript:alert(1)",
    ],
)
def test_what_is_no_endpoint_s_address_is_refused_with_a_sentence(url: str) -> None:
    assert url_problem(url).endswith(".")


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://Host:1/v1/", "http://host:1"),
        ("http://host:1", "http://host:1"),
        ("https://host/a/v1", "https://host/a"),
        ("https://host/av1", "https://host/av1"),
    ],
)
def test_however_much_of_the_address_is_given_the_base_is_the_same(url: str, base: str) -> None:
    assert base_url(url) == base


def test_a_model_has_a_name_of_one_line() -> None:
    assert model_problem("org/model:7b") == ""
    assert model_problem("  ") and model_problem("a\nb") and model_problem("x" * 201)


def test_a_key_can_be_sent_as_a_header() -> None:
    assert key_problem("") == key_problem("sk-abc_123") == ""
    assert key_problem("two words") and key_problem("line\r\nbreak") and key_problem("schlüssel")


def test_problems_carry_the_names_of_the_wish() -> None:
    problems = check_endpoint("nowhere", "", "a b")
    assert [problem.field for problem in problems] == ["external_url", "external_model", "external_key"]
    assert check_endpoint("http://h:1", "m") == []


def test_the_key_is_a_bearer_token_and_absent_without_a_key() -> None:
    assert request_headers("k")["authorization"] == "Bearer k"
    assert "authorization" not in request_headers("")
