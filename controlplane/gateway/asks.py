"""What a client asks for: the few fields of the body that the gateway reads, and the body as the replica gets it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from controlplane.domain import media, steering
from controlplane.gateway.errors import GatewayError

_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text_decoder = msgspec.json.Decoder(str)
_flag_decoder = msgspec.json.Decoder(bool | None)
_options_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_count_decoder = msgspec.json.Decoder(int | None)
_any_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()
_list_decoder = msgspec.json.Decoder(list[msgspec.Raw])
CHAT, COMPLETIONS, EMBEDDINGS = "/chat/completions", "/completions", "/embeddings"
# path -> the fields that limit an answer there, the one that wins first; what an endpoint does not read limits nothing
LIMITS: Mapping[str, Sequence[str]] = {
    CHAT: ("max_completion_tokens", "max_tokens"),
    COMPLETIONS: ("max_tokens",),
    EMBEDDINGS: (),
}
OURS = frozenset({"model", "stream", "stream_options"})
_NOT_READ = -1
MOST_FIELDS = 200  # OpenAI and the engines know about 80; each costs memory for as long as the request runs
_TRUE = msgspec.Raw(b"true")
MOST_OUTPUT = 10_000_000
MOST_CHOICES = 128
MOST_INPUTS = 2048  # of one request for embeddings, as OpenAI allows
LONG_BODY_BYTES = 16 * 1024  # from here on it is worth a look for pictures and sounds
_INLINE = re.compile(rb'(?:;base64,|"data"\s{0,8}:\s{0,8}")[A-Za-z0-9+/=\\_-]{256,}')


@dataclass(slots=True)
class Ask:
    """One request body. `fields` maps the body's outermost names to their raw JSON."""

    path: str
    model: str
    stream: bool
    usage_wanted: bool  # the client itself asked for the usage event
    fields: dict[str, msgspec.Raw]
    options: dict[str, msgspec.Raw] | None
    body_bytes: int = 0
    mixed_bytes: int = 0  # of these, what is no text
    mixed_count: int = 0  # pictures and sounds
    may_hold_media: bool = False
    sets_priority: bool = False  # the gateway did, for the replica before
    put_by_us: str = ""  # the other field that the gateway has set
    _limit: int | None = _NOT_READ

    def output_limit(self) -> int | None:
        """Returns the tokens that each of its choices may have; None when the client does not say."""
        if self._limit == _NOT_READ:
            self._limit = self._read_limit()
        return self._limit

    def _read_limit(self) -> int | None:
        for name in LIMITS[self.path]:
            raw = self.fields.get(name)
            if raw is not None and (count := _count(raw, MOST_OUTPUT, name)) is not None:
                return count
        return None

    def least_output(self) -> int | None:
        """Returns the tokens that each of its choices has for certain where nothing limits it; None = it goes on to
        the end of the context."""
        fields = self.fields
        raw = fields.get("ignore_eos")
        if raw is not None and bytes(raw).strip() not in (b"false", b"null"):
            return None
        raw = fields.get("min_tokens")
        return 0 if raw is None else _count(raw, MOST_OUTPUT, "min_tokens") or 0

    def sequences(self, most: int = MOST_CHOICES) -> int:
        """Returns how many answers an engine works on at once: `n` to each of the prompts, or `best_of` to choose these
        from. Raises GatewayError 400 where they are more than `most`."""
        fields = self.fields
        choices, field = 1, "n"
        for name in ("n", "best_of"):
            raw = fields.get(name)
            if raw is not None and (count := _count(raw, MOST_CHOICES, name, is_bound=True) or 1) > choices:
                choices, field = count, name
        raw = fields.get("prompt") if self.path == COMPLETIONS else None
        prompts = 1 if raw is None else _prompts(raw)
        if prompts * choices <= most:
            return prompts * choices
        if prompts > most:
            raise _bad(f"`prompt` is a list of {prompts}; a request may ask for {most} answers at most.", "prompt")
        times = f" to each of {prompts} prompts" if prompts > 1 else ""
        why = f"`{field}` asks for {choices} answers{times}; a request may ask for {most} at most."
        raise _bad(why, field)

    def inputs(self, most: int = MOST_INPUTS) -> int:
        """Returns how many texts a request for embeddings has. Raises GatewayError 400 where they are more than may be
        (`most`, where that is more than OpenAI allows)."""
        raw, most = self.fields.get("input"), max(most, MOST_INPUTS)
        inputs = 1 if raw is None else _prompts(raw)
        if inputs > most:
            raise _bad(f"`input` is a list of {inputs}; a request may have {most} at most.", "input")
        return inputs

    def affinity(self, tenant: str, size: int) -> str:
        """Returns a text that requests share which profit from the same replica: what the client calls its cache key,
        else how a long prompt begins; empty when there is nothing."""
        raw = self.fields.get("prompt_cache_key")
        if raw is not None and bytes(raw) == b"null":
            raw = None
        if raw is None and self.body_bytes >= size:
            raw = self.fields.get("messages") or self.fields.get("prompt")
        return "" if raw is None else f"{tenant}:{hash(bytes(raw)[:size])}"

    def body_for(self, model: str, *, exact: bool = False, priority: bytes = b"") -> bytes:
        """Returns the body for a replica that knows the model as `model`; a stream always asks for its usage.

        It is written anew even when nothing changes, so that a name given twice can't mean one thing here and another
        in the engine. `exact` leaves out other spellings of our names: some servers ignore upper and lower case, and
        then `Model` would reach a model that the key may not use. `priority` is for an engine that goes by it.
        """
        if priority:
            self.fields["priority"] = msgspec.Raw(priority)
        elif self.sets_priority:
            self.fields.pop("priority", None)
        self.sets_priority = bool(priority)
        if exact:
            for name in [one for one in self.fields if one not in OURS and one.lower() in OURS]:
                del self.fields[name]
        self.fields["model"] = msgspec.Raw(_encoder.encode(model))
        if self.stream and not self.usage_wanted:
            options = {**(self.options or {}), "include_usage": _TRUE}
            self.fields["stream_options"] = msgspec.Raw(_encoder.encode(options))
        return _encoder.encode(self.fields)

    def whole(self) -> bytes:
        """Returns the body as it is now."""
        return _encoder.encode(self.fields)

    def take_out(self, names: frozenset[str]) -> list[str]:
        """Takes fields out of the request, of some only what steers, and returns which of them were there."""
        found: list[str] = []
        for name in sorted(names.intersection(self.fields)):
            parts = steering.NESTED.get(name)
            if parts is None:
                del self.fields[name]
                if name != self.put_by_us and not (name == "priority" and self.sets_priority):
                    found.append(name)
            else:
                found += self._take_out_of(name, parts)
        return found

    def _take_out_of(self, name: str, parts: frozenset[str]) -> list[str]:
        try:
            value = _options_decoder.decode(self.fields[name]) or {}
        except msgspec.DecodeError:  # no object: the engine says what is wrong with it
            return []
        found = sorted(parts.intersection(value))
        if found:
            kept = {one: raw for one, raw in value.items() if one not in parts}
            self.fields[name] = msgspec.Raw(_encoder.encode(kept))
        return [f"{name}.{one}" for one in found]

    def cap(self, tokens: int) -> None:
        """Has each of its choices end after so many tokens at most."""
        most, self._limit = msgspec.Raw(b"%d" % tokens), _NOT_READ
        limits = LIMITS[self.path]
        named = [name for name in limits if self.fields.get(name) not in (None, b"null")] or ["max_tokens"]
        for name in named:
            if (_count(self.fields.get(name, most), MOST_OUTPUT, name) or tokens) >= tokens:
                self.fields[name] = most
        least = self.fields.get("min_tokens")
        if least is not None and (_count(least, MOST_OUTPUT, "min_tokens") or 0) > tokens:
            self.fields["min_tokens"] = most

    def put(self, name: str, value: msgspec.Raw) -> None:
        """Sets a field to raw JSON, in the gateway's own name."""
        self.fields[name] = value
        self.put_by_us = name


def for_model(body: bytes, model: str) -> bytes:
    """Returns a request's body for another model."""
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    fields["model"] = msgspec.Raw(msgspec.json.encode(model))
    return msgspec.json.encode(fields)


def read_ask(body: bytes, path: str) -> Ask:
    """Returns the ask in a body that has come to `path`; raises GatewayError that names what is wrong."""
    try:
        fields = _fields_decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _bad(f"The body must be a JSON object: {error}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(f"The body is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise _bad("The body is not valid JSON: it is nested too deeply.") from error
    if len(fields) > MOST_FIELDS:
        raise _bad(f"The body has {len(fields)} fields; {MOST_FIELDS} are the most.")
    raw = fields.get("model")
    if raw is None:
        raise _bad("`model` is missing.", "model")
    try:
        model = _text_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad("`model` must be a string.", "model") from error
    size = len(body)
    inline: tuple[int, ...] = ()
    if size > LONG_BODY_BYTES:
        inline = tuple(len(one) for one in _INLINE.findall(body))
    stream_raw = fields.get("stream")
    if stream_raw is None:
        return Ask(path, model, False, False, fields, None, size, sum(inline), len(inline), media.may_be_held(body))
    try:
        stream = bool(_flag_decoder.decode(stream_raw))
    except msgspec.DecodeError as error:
        raise _bad("`stream` must be true or false.", "stream") from error
    options = _read_options(fields) if stream else None
    wanted = options is not None and bytes(options.get("include_usage", b"")).strip() == b"true"
    return Ask(path, model, stream, wanted, fields, options, size, sum(inline), len(inline), media.may_be_held(body))


def check_media(ask: Ask, domains: Sequence[str]) -> list[str]:
    """Raises GatewayError 400 for an address that the engine would have to fetch from somewhere not allowed, and for
    tensors; takes out what would be the engine's cache key of a picture, and returns where such were."""
    found: list[str] = []
    for name in media.FIELDS:
        raw = ask.fields.get(name)
        if raw is None:
            continue
        try:
            value = _any_decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _bad(f"`{name}` can't be read: {error}.", name) from error
        refused = media.refused(value, name, domains)
        if refused is not None:
            raise _bad(f"`{refused.param}`: {refused.why}", refused.param)
        if media.take_out_cache_keys(value):
            ask.fields[name] = msgspec.Raw(_encoder.encode(value))
            found.append(f"{name}.content.{media.CACHE_KEY}")
    return found


def _count(raw: msgspec.Raw, most: int, field: str, *, is_bound: bool = False) -> int | None:
    """Raises GatewayError for what is no whole number: an engine may take "128" for one, and then does more than is
    reserved for it. `is_bound`: more than `most` is refused too."""
    try:
        count = _count_decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise _bad(f"`{field}` must be a whole number.", field) from error
    if count is None:
        return None
    if is_bound and count > most:
        raise _bad(f"`{field}` is {count}; {most} is the most.", field)
    return max(1, min(most, count))


def _prompts(raw: msgspec.Raw) -> int:
    """Returns how many prompts a prompt is: a list of numbers is one, given as tokens."""
    if not bytes(raw).startswith(b"["):
        return 1
    found = _list_decoder.decode(raw)
    return len(found) if found and bytes(found[0]).startswith((b'"', b"[")) else 1


def _read_options(fields: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw] | None:
    raw = fields.get("stream_options")
    if raw is None:
        return None
    try:
        return _options_decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise _bad("`stream_options` must be an object.", "stream_options") from error


def _bad(message: str, param: str | None = None) -> GatewayError:
    return GatewayError(400, "invalid_request", message, param=param)
