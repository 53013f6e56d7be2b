"""What a deployment learns of the sizes of its requests, and what it does not let itself be taught."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.domain.admission.estimates import FIRST_OUTPUT_TOKENS
from controlplane.domain.admission.ticket import Ticket
from controlplane.gateway.asks import CHAT, COMPLETIONS, EMBEDDINGS, Ask, read_ask
from controlplane.gateway.errors import GatewayError
from controlplane.gateway.sizes import Sizes


def _ask(path: str = CHAT, **fields: Any) -> Ask:
    return read_ask(json.dumps({"model": "m", **fields}).encode(), path)


def _ticket(sizes: Sizes, ask: Ask) -> Ticket:
    prompt, output, sequences, sure = sizes.of(ask, "t", None)
    return Ticket("1", "t", "standard", prompt, output, 0.0, 1.0, ask.body_bytes, "", sequences, sure)


def _text_estimate(sizes: Sizes) -> int:
    return sizes.prompt(_ask(messages="x" * 4000), None)


def _output(ask: Ask, most: int | None = None, sizes: Sizes | None = None) -> int:
    return (sizes or Sizes()).of(ask, "t", most)[1]


def test_a_picture_teaches_nothing_about_text() -> None:
    sizes = Sizes()
    before = _text_estimate(sizes)
    picture = _ask(messages="data:image/png;base64," + "A" * 1_000_000)
    sizes.learn(_ticket(sizes, picture), picture, 300, 10)
    assert _text_estimate(sizes) == before


def test_a_sound_is_no_text() -> None:
    sound = _ask(messages=[{"input_audio": {"data": "A" * 100_000, "format": "wav"}}])
    assert sound.mixed_count == 1
    assert Sizes().prompt(sound, None) < 1200


def test_what_is_far_from_any_text_moves_the_estimate_only_so_far() -> None:
    sizes = Sizes()
    _text_estimate(sizes)
    odd = _ask(messages=[], metadata=" " * 900_000)
    for _ in range(50):
        sizes.learn(_ticket(sizes, odd), odd, 5, 1)
    assert _text_estimate(sizes) >= 4000 / 12


def test_the_output_of_several_choices_is_learned_by_choice() -> None:
    sizes = Sizes()
    several = _ask(messages="x", n=4)
    for _ in range(30):
        sizes.learn(_ticket(sizes, several), several, 10, 400)
    assert 400 <= _output(several, sizes=sizes) <= 500


def test_the_mean_of_the_first_requests_is_their_own() -> None:
    sizes, ask = Sizes(), _ask(messages="x")
    ticket = _ticket(sizes, ask)
    sizes.learn(ticket, ask, 1900, 100)
    assert sizes.mean_tokens == 2000
    sizes.learn(ticket, ask, 900, 100)
    assert sizes.mean_tokens == 1500
    for _ in range(300):
        sizes.learn(ticket, ask, 90, 10)
    assert 100 <= sizes.mean_tokens < 200, "it follows what comes later"


def test_answers_that_their_limit_cuts_teach_nothing_of_shorter_ones() -> None:
    sizes, cut = Sizes(), _ask(messages="x", max_tokens=16)
    for _ in range(200):
        sizes.learn(_ticket(sizes, cut), cut, 10, 16)
    assert _output(_ask(messages="x"), sizes=sizes) == FIRST_OUTPUT_TOKENS
    long = _ask(messages="x", max_tokens=4000)
    for _ in range(30):
        sizes.learn(_ticket(sizes, long), long, 10, 4000)
    assert _output(_ask(messages="x"), sizes=sizes) > 3000, "it would have been longer still"
    for _ in range(400):
        sizes.learn(_ticket(sizes, long), long, 10, 50)
    assert _output(_ask(messages="x"), sizes=sizes) < 1000, "one that ended by itself teaches"


def test_a_cache_key_of_null_is_none() -> None:
    assert _ask(messages="x", prompt_cache_key=None).affinity("t", 1024) == ""
    long = _ask(messages="x" * 2000)
    assert _ask(messages="x" * 2000, prompt_cache_key=None).affinity("t", 1024) == long.affinity("t", 1024) != ""
    assert _ask(messages="x", prompt_cache_key="k").affinity("t", 1024) != ""


@pytest.mark.parametrize(
    ("path", "limits", "tokens"),
    [
        (CHAT, {"max_completion_tokens": 1, "max_tokens": 900}, 1),
        (CHAT, {"max_completion_tokens": 900, "max_tokens": 1}, 900),
        (CHAT, {"max_completion_tokens": None, "max_tokens": 7}, 7),
        (COMPLETIONS, {"max_completion_tokens": 1, "max_tokens": 900}, 900),
        (COMPLETIONS, {"max_completion_tokens": 1}, FIRST_OUTPUT_TOKENS),
        (EMBEDDINGS, {"max_tokens": 900}, 0),
    ],
)
def test_only_the_limit_that_its_endpoint_reads_counts(path: str, limits: dict[str, object], tokens: int) -> None:
    assert _output(_ask(path, **limits)) == tokens


def test_a_plain_completion_of_an_engine_with_a_default_has_that() -> None:
    sizes = Sizes()
    sizes.engine = "vllm"
    assert _output(_ask(COMPLETIONS, max_completion_tokens=900), sizes=sizes) == 16
    assert _output(_ask(COMPLETIONS, max_tokens=None), sizes=sizes) == FIRST_OUTPUT_TOKENS


def test_what_goes_on_for_certain_is_reserved_and_teaches_nothing() -> None:
    sizes = Sizes()
    assert _output(_ask(messages="x", min_tokens=5000), sizes=sizes) == 5000
    assert _output(_ask(messages="x", min_tokens=5000, max_tokens=6000), sizes=sizes) == 6000
    endless = _ask(messages="x", ignore_eos=True)
    assert _output(endless, 40_000, sizes) == 40_000
    for _ in range(30):
        sizes.learn(_ticket(sizes, endless), endless, 10, 30_000)
    assert _output(_ask(messages="x", ignore_eos=False), 40_000, sizes) == FIRST_OUTPUT_TOKENS


@pytest.mark.parametrize("asked", [{"max_tokens": 1_000_000}, {"min_tokens": 1_000_000}, {"ignore_eos": True}])
def test_no_answer_holds_more_than_the_context_whatever_is_asked_for(asked: dict[str, Any]) -> None:
    sizes = Sizes()
    sizes.context_tokens = 8192
    assert _output(_ask(messages="x", **asked), 40_000, sizes) == 8192


@pytest.mark.parametrize(
    ("prompt", "count"),
    [("one", 1), ([1, 2, 3, 4], 1), (["a", "b", "c"], 3), ([[1, 2], [3]], 2), ([], 1), ([{"x": 1}], 1)],
)
def test_each_prompt_of_a_list_is_an_answer_of_its_own(prompt: object, count: int) -> None:
    ask = _ask(COMPLETIONS, prompt=prompt, max_tokens=10, n=2)
    assert Sizes().of(ask, "t", None)[1:3] == (20 * count, 2 * count)


@pytest.mark.parametrize(
    ("texts", "count"), [("one", 1), ([1, 2, 3, 4], 1), (["a", "b", "c"], 3), ([[1, 2], [3]], 2), (["a"] * 2048, 2048)]
)
def test_each_text_to_embed_is_a_sequence_of_its_own(texts: object, count: int) -> None:
    prompt, output, sequences, sure = Sizes().of(_ask(EMBEDDINGS, input=texts, n=7), "t", None)
    assert (output, sequences, sure) == (0, count, prompt)


def test_more_texts_than_any_request_may_have_are_refused() -> None:
    with pytest.raises(GatewayError) as refused:
        Sizes().of(_ask(EMBEDDINGS, input=["a"] * 2049), "t", None)
    assert (refused.value.status, refused.value.param) == (400, "input")
    assert Sizes(sequences_most=3000).of(_ask(EMBEDDINGS, input=["a"] * 2049), "t", None)[2] == 2049


def test_texts_that_are_longer_than_a_cache_together_are_worked_on_in_turn() -> None:
    assert Sizes().of(_ask(EMBEDDINGS, input=["word " * 400] * 2000), "t", 40_000)[0] == 40_000


def test_of_an_answer_that_is_the_best_of_several_each_counts() -> None:
    assert Sizes().of(_ask(COMPLETIONS, prompt="a", max_tokens=10, n=2, best_of=5), "t", None)[1:3] == (50, 5)


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("prompt", {"prompt": ["a"] * 5000, "n": 128}),
        ("prompt", {"prompt": [[1, 2]] * 257}),
        ("n", {"prompt": ["a"] * 200, "n": 2}),
        ("best_of", {"prompt": ["a"] * 200, "n": 1, "best_of": 2}),
    ],
)
def test_more_answers_than_a_request_may_ask_for_are_refused_by_their_field(field: str, fields: dict) -> None:
    with pytest.raises(GatewayError) as refused:
        Sizes().of(_ask(COMPLETIONS, **fields), "t", None)
    assert (refused.value.status, refused.value.param) == (400, field)
    assert f"`{field}`" in refused.value.message and "256" in refused.value.message
    assert Sizes(sequences_most=1_000_000).of(_ask(COMPLETIONS, **fields), "t", None)[2] >= 257


def test_a_chat_has_one_prompt_whatever_else_it_says() -> None:
    assert Sizes().of(_ask(messages="x", prompt=["a"] * 5000), "t", None)[2] == 1


@pytest.mark.parametrize(
    "field", [{"n": "128"}, {"n": 1.5}, {"n": True}, {"n": 129}, {"max_tokens": "9"}, {"max_completion_tokens": []}]
)
def test_what_an_engine_may_read_as_a_number_is_refused_by_its_field(field: dict[str, Any]) -> None:
    with pytest.raises(GatewayError) as refused:
        Sizes().of(_ask(messages="x", **field), "t", None)
    assert refused.value.status == 400 and refused.value.param == next(iter(field))


def test_a_cap_lowers_every_limit_that_is_named() -> None:
    ask = _ask(max_tokens=4000, max_completion_tokens=20)
    ask.cap(512)
    assert (bytes(ask.fields["max_tokens"]), bytes(ask.fields["max_completion_tokens"])) == (b"512", b"20")
    for unnamed in (_ask(max_tokens=None), _ask(COMPLETIONS, max_completion_tokens=20)):
        unnamed.cap(512)
        assert bytes(unnamed.fields["max_tokens"]) == b"512"
    least = _ask(COMPLETIONS, max_tokens=4000, min_tokens=1000)
    least.cap(512)
    assert (bytes(least.fields["max_tokens"]), bytes(least.fields["min_tokens"])) == (b"512", b"512")
