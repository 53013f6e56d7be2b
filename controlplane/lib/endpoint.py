"""Asking an OpenAI-compatible endpoint whether it is there."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

TIMEOUT_S = 5.0
LONGEST_ANSWER_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Answered:
    """The endpoint answered; `models` are the names it lists, empty when it lists none."""

    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unusable:
    """The endpoint can't be used now: a searchable code, one sentence, what to do."""

    code: str
    message: str
    hint: str = ""


def ask_models(base_url: str, key: str, timeout_s: float = TIMEOUT_S) -> Answered | Unusable:
    """Asks `GET <base>/models` with the key as bearer token; a base without a path stands for `/v1`.

    Follows no redirect, so that the key goes nowhere but to the given address.
    """
    parts = urlsplit(base_url)
    path = (parts.path.rstrip("/") or "/v1") + "/models"
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    try:
        connection = _connection(parts.scheme, parts.hostname or "", parts.port, timeout_s)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            body = response.read(LONGEST_ANSWER_BYTES)
        finally:
            connection.close()
    except TimeoutError:
        return Unusable("endpoint_timeout", f"The endpoint did not answer within {timeout_s:.0f} s.")
    except (OSError, http.client.HTTPException, ValueError) as error:
        hint = "Is it running, and does this machine reach its address?"
        return Unusable("endpoint_unreachable", f"The endpoint can't be reached: {error}.", hint)
    return _read(response.status, body)


def _connection(scheme: str, host: str, port: int | None, timeout_s: float) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=timeout_s)


def _read(status: int, body: bytes) -> Answered | Unusable:
    if status in (401, 403):
        return Unusable("endpoint_key", f"The endpoint refuses the key (status {status}).", "Give another key.")
    if status != 200:
        hint = "The base URL is the part before /models, such as https://host/v1."
        return Unusable("endpoint_status", f"The endpoint answers its list of models with status {status}.", hint)
    try:
        listed = json.loads(body)["data"]
        return Answered(tuple(str(one["id"]) for one in listed))
    except (ValueError, TypeError, KeyError):
        return Unusable("endpoint_answer", "The endpoint's list of models is not in OpenAI's shape.")
