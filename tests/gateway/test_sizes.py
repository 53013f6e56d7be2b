"""What a deployment learns of the sizes of its requests, and what it does not let itself be taught."""

import json

from controlplane.domain.admission.ticket import Ticket
from controlplane.gateway.asks import Ask, read_ask
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
