"""The token counts that engines write into their answers, as they come over the wire."""

from __future__ import annotations

from typing import Annotated

import msgspec

# what an engine claims beyond this is no count: nobody's quota or bill may hang on it
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]


class Usage(msgspec.Struct, frozen=True):
    """The token counts of an answer."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None


class Event(msgspec.Struct):
    """What is looked for in an event of a stream."""

    choices: list[msgspec.Raw] | None = None
    usage: Usage | None = None


class Answer(msgspec.Struct):
    """What is looked for in a plain answer."""

    usage: Usage | None = None


event_decoder = msgspec.json.Decoder(Event)
answer_decoder = msgspec.json.Decoder(Answer)
usage_decoder = msgspec.json.Decoder(Usage)
