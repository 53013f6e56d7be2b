"""What a deployment learns of the sizes of its requests, and what it does not let itself be taught."""

from __future__ import annotations

import json

import pytest

from controlplane.domain.admission.ticket import Ticket
from controlplane.gateway.asks import Ask, read_ask
from controlplane.gateway.errors import GatewayError
from controlplane.gateway.sizes import Sizes

CHAT = "/chat/completions"


def _ask(**fields: object) -> Ask:
    return read_ask(json.dumps({"model": "m", **fields}).encode())


def _ticket(sizes: Sizes, ask: Ask) -> Ticket:
    prompt = sizes.prompt(ask, CHAT, None)
    return Ticket("1", "t", "standard", prompt, 0, 0.0, 1.0, ask.body_bytes, "")


def _text_estimate(sizes: Sizes) -> int:
    return sizes.prompt(_ask(messages="x" * 4000), CHAT, None)


def test_a_picture_teaches_nothing_about_text() -> None:
    sizes = Sizes()
    before = _text_estimate(sizes)
    picture = _ask(messages="data:image/png;base64," + "A" * 1_000_000)
    sizes.learn(_ticket(sizes, picture), picture, CHAT, 300, 10)
    assert _text_estimate(sizes) == before


def test_a_sound_is_no_text() -> None:
    sound = _ask(messages=[{"input_audio": {"data": "A" * 100_000, "format": "wav"}}])
    assert sound.mixed_count == 1
    assert Sizes().prompt(sound, CHAT, None) < 1200


def test_what_is_far_from_any_text_moves_the_estimate_only_so_far() -> None:
    sizes = Sizes()
    _text_estimate(sizes)
    odd = _ask(messages=[], metadata=" " * 900_000)
    for _ in range(50):
        sizes.learn(_ticket(sizes, odd), odd, CHAT, 5, 1)
    assert _text_estimate(sizes) >= 4000 / 12


def test_the_output_of_several_choices_is_learned_by_choice() -> None:
    sizes = Sizes()
    several = _ask(messages="x", n=4)
    for _ in range(30):
        sizes.learn(_ticket(sizes, several), several, CHAT, 10, 400)
    assert 400 <= sizes.output(several, CHAT, "t") <= 500


def test_of_two_limits_the_larger_is_reserved() -> None:
    """An endpoint that reads only one of them shall not do more than was reserved."""
    sizes = Sizes()
    for limits in ({"max_completion_tokens": 1, "max_tokens": 900}, {"max_completion_tokens": 900, "max_tokens": 1}):
        assert sizes.output(_ask(**limits), "/completions", "t") == 900


@pytest.mark.parametrize(
    ("prompt", "count"),
    [("one", 1), ([1, 2, 3, 4], 1), (["a", "b", "c"], 3), ([[1, 2], [3]], 2), ([], 1), ([{"x": 1}], 1)],
)
def test_each_prompt_of_a_list_is_an_answer_of_its_own(prompt: object, count: int) -> None:
    assert Sizes().output(_ask(prompt=prompt, max_tokens=10, n=2), "/completions", "t") == 20 * count


@pytest.mark.parametrize(
    "field", [{"n": "128"}, {"n": 1.5}, {"n": True}, {"n": 129}, {"max_tokens": "9"}, {"max_completion_tokens": []}]
)
def test_what_an_engine_may_read_as_a_number_is_refused_by_its_field(field: dict[str, object]) -> None:
    with pytest.raises(GatewayError) as refused:
        Sizes().output(_ask(messages="x", **field), CHAT, "t")
    assert refused.value.status == 400 and refused.value.param == next(iter(field))


def test_a_cap_lowers_every_limit_that_is_named() -> None:
    ask = _ask(max_tokens=4000, max_completion_tokens=20)
    ask.cap(512)
    assert (bytes(ask.fields["max_tokens"]), bytes(ask.fields["max_completion_tokens"])) == (b"512", b"20")
    unnamed = _ask(max_tokens=None)
    unnamed.cap(512)
    assert bytes(unnamed.fields["max_tokens"]) == b"512"
