from __future__ import annotations

import json

import pytest

from controlplane.domain.media import may_be_held, refused, take_out_cache_keys

ALLOWED = ("cdn.example.com", ".pictures.example")


def make_part(url: object, kind: str = "image_url") -> list:
    return [{"role": "user", "content": [{"type": "text", "text": "See http://x.y"}, {"type": kind, kind: url}]}]


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64,AAAA",
        "https://cdn.example.com/a.png?b=1#c",
        "http://CDN.example.com:8080/a",
        "https://a.pictures.example/x",
    ],
)
def test_what_is_sent_along_or_comes_from_an_allowed_host_passes(url: str) -> None:
    assert refused(make_part({"url": url}), "messages", ALLOWED) is None
    assert refused(make_part(url, "video_url"), "messages", ALLOWED) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "https://evil.example/a",
        "https://cdn.example.com@evil.example/a",
        "https://evil.example\\@cdn.example.com/",
        "https://evilpictures.example/a",
        "file:///etc/passwd",
        " https://cdn.example.com/a",
        "//cdn.example.com/a",
        "HTTPS://cdn.example.com/a b",
        "",
    ],
)
def test_everything_else_is_refused_and_its_place_named(url: str) -> None:
    for kind in ("image_url", "audio_url", "video_url", "file_url"):
        for value in (url, {"url": url, "detail": "low"}):
            found = refused(make_part(value, kind), "messages", ALLOWED)
            assert found is not None and found.param == f"messages[0].content[1].{kind}"


def test_short_names_are_looked_at_where_they_hold_an_address() -> None:
    assert refused([{"content": [{"image": "http://evil.example"}]}], "messages", ()) is not None
    assert refused([{"content": [{"image": "iVBORw0KGgo"}]}], "messages", ()) is None
    assert refused([{"content": "See http://x.y for image_url"}], "messages", ()) is None


def test_any_host_can_be_allowed() -> None:
    assert refused(make_part("http://anywhere.example/a"), "messages", ("*",)) is None


@pytest.mark.parametrize("text", ['{"image_\\u0075rl": "a"}', '{"image_url":1}', '{"image": "http:\\/\\/a"}'])
def test_no_way_of_writing_it_escapes_the_look(text: str) -> None:
    json.loads(text)
    assert may_be_held(text.encode())


def test_what_is_nested_without_end_is_left_to_others() -> None:
    value: list = []
    for _ in range(100):
        value = [value]
    assert refused(value, "messages", ()) is None


@pytest.mark.parametrize("kind", ["image_embeds", "audio_embeds", "video_embeds", "prompt_embeds"])
def test_tensors_are_refused_however_they_are_marked(kind: str) -> None:
    for part in ({"type": kind, "data": "AAAA"}, {kind: "AAAA", "uuid": "x"}, {"type": "text", kind: None}):
        found = refused([{"role": "user", "content": [part]}], "messages", ("*",))
        assert found is not None and found.param.startswith("messages[0].content[0].") and "Tensors" in found.why
    assert refused([{"role": "user", "content": f"What is {kind}?"}], "messages", ()) is None


def test_cache_keys_of_media_are_taken_out_wherever_messages_stand() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:,A", "uuid": "not read"}, "uuid": "x"}
    messages = [{"role": "user", "content": [{"type": "text", "text": "uuid"}, dict(part), "uuid"]}]
    for value in (messages, [messages], {"messages": messages}):
        messages[0]["content"][1] = dict(part)  # type: ignore[index]
        assert take_out_cache_keys(value)
        assert messages[0]["content"][1] == {key: one for key, one in part.items() if key != "uuid"}
        assert not take_out_cache_keys(value)
    assert not take_out_cache_keys([{"role": "user", "content": "uuid", "uuid": "a message's own"}])


@pytest.mark.parametrize("body", [b'{"uuid": 1}', b'{"\\u0075uid": 1}', b'{"type": "prompt_embeds"}'])
def test_what_may_steer_from_within_messages_is_looked_at(body: bytes) -> None:
    assert may_be_held(body)
