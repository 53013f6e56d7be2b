"""The box in which a model can be tried: the answer is streamed as lines of JSON."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import h11
from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.utils.translation import get_language, override
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from controlplane.accounts import roles
from controlplane.accounts.models import User
from controlplane.console import gateway_client, internal_key, sentences
from controlplane.console.guard import STATUS
from controlplane.deployments import selectors
from controlplane.domain.errors import RefusedError

_KEY_SPREADS_S = 10.0  # until every gateway has the routing snapshot with a new key
_LONGEST_PROMPT = 20_000


@require_POST
async def try_it(request: HttpRequest, name: str) -> HttpResponseBase:
    """Streams `{"delta"}` lines, then `{"done"}` with what was measured, or `{"error"}`."""
    user = await request.auser()
    try:
        if not isinstance(user, User):
            raise RefusedError("login", _("Log in first."), kind="forbidden")
        roles.require(user, roles.OPERATOR)
        await sync_to_async(selectors.deployment)(name)
        body = _body(request, name)
        new = await sync_to_async(internal_key.ensure)()
    except RefusedError as error:
        line = {"error": {"code": error.code, "message": sentences.said(error.message)}}
        return JsonResponse(line, status=STATUS[error.kind])
    response = StreamingHttpResponse(_lines(body, new, get_language() or "en"), content_type="application/x-ndjson")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


def _body(request: HttpRequest, name: str) -> dict[str, object]:
    prompt = request.POST.get("prompt", "").strip()
    if not prompt or len(prompt) > _LONGEST_PROMPT:
        raise RefusedError("invalid", _("Write a message of at most %(n)d characters.") % {"n": _LONGEST_PROMPT})
    try:
        longest = min(4096, max(1, int(request.POST.get("max_tokens") or 128)))
        temperature = min(2.0, max(0.0, float(request.POST.get("temperature") or 0)))
    except ValueError:
        raise RefusedError("invalid", _("Give numbers for length and temperature.")) from None
    return {
        "model": name,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": longest,
        "temperature": temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def _lines(body: dict[str, object], key_is_new: bool, language: str) -> AsyncIterator[str]:
    deadline = time.monotonic() + (_KEY_SPREADS_S if key_is_new else 3.0)
    while True:
        try:
            async for line in _answer(body, language):
                yield json.dumps(line, ensure_ascii=False) + "\n"
            return
        except gateway_client.GatewayError as error:
            if error.status == 401 and time.monotonic() < deadline:
                await asyncio.sleep(0.5)
                continue
            yield json.dumps({"error": {"code": error.code, "message": _said(error.message, language)}}) + "\n"
            return
        except (OSError, TimeoutError, h11.ProtocolError) as error:
            with override(language):
                text = _("The connection to the gateway broke: %(why)s.") % {"why": error or type(error).__name__}
            yield json.dumps({"error": {"code": "broken", "message": text}}) + "\n"
            return


def _said(text: str, language: str) -> str:
    """The answer is written after the request has been left, so it keeps the request's language itself."""
    with override(language):
        return sentences.said(text)


async def _answer(body: dict[str, object], language: str) -> AsyncIterator[dict[str, Any]]:
    started = time.monotonic()
    first: float | None = None
    last, tokens = started, 0
    events = gateway_client.stream(
        settings.GATEWAY_INTERNAL_URL, internal_key.secret(), body, certificate=settings.GATEWAY_CERTIFICATE
    )
    async for event in events:
        if event.error is not None:
            yield {"error": {"code": str(event.error.code), "message": _said(event.error.message, language)}}
            return
        if event.usage is not None and event.usage.completion_tokens is not None:
            tokens = event.usage.completion_tokens
        for choice in event.choices or []:
            text = choice.delta.content if choice.delta is not None else None
            if text:
                last = time.monotonic()
                first = first or last
                yield {"delta": text}
    took = last - first if first else 0.0
    rate = (tokens - 1) / took if tokens > 1 and took > 0 else None
    done = {"tokens": tokens, "ttft_s": first - started if first else None, "tokens_per_s": rate}
    yield {"done": done}
