"""Asking an OpenAI-compatible endpoint whether it is there."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from controlplane.domain import addresses

TIMEOUT_S = 5.0
LONGEST_ANSWER_BYTES = 1_000_000
LONGEST_NAME = 200
MOST_NAMES = 1000


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

    Follows no redirect, so that the key goes nowhere but to the given address, and asks nothing at an address where
    clouds hand out credentials, whatever name leads there. Certificates are checked.
    """
    parts = urlsplit(base_url)
    path = (parts.path.rstrip("/") or "/v1") + "/models"
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    try:
        status, body = _get(parts, path, headers, timeout_s)
    except ForbiddenAddressError:
        return Unusable("endpoint_address", "The endpoint's name leads to an address that is no endpoint's.")
    except TimeoutError:
        return Unusable("endpoint_timeout", f"The endpoint did not answer within {timeout_s:.0f} s.")
    except (OSError, http.client.HTTPException, ValueError) as error:
        hint = "Is it running, and does this machine reach its address?"
        return Unusable("endpoint_unreachable", f"The endpoint can't be reached: {error}.", hint)
    return _read(status, body)


class ForbiddenAddressError(Exception):
    """A name leads to where nothing is ever asked."""


def _get(parts: SplitResult, path: str, headers: dict[str, str], timeout_s: float) -> tuple[int, bytes]:
    """Returns (status, body); raises TimeoutError when the whole takes longer than `timeout_s` from the connection on:
    a socket's own time limit begins anew with every byte."""
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    host, port = parts.hostname or "", parts.port or (443 if tls else 80)
    until = time.monotonic() + timeout_s
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(socket.create_connection((host, port), timeout_s))
        if addresses.is_forbidden(tcp.getpeername()[0]):
            raise ForbiddenAddressError
        switch = stack.enter_context(tcp.dup())
        limit = threading.Timer(max(0.0, until - time.monotonic()), switch.shutdown, (socket.SHUT_RDWR,))
        limit.daemon = True
        limit.start()
        stack.callback(limit.cancel)
        connection = http.client.HTTPConnection(host, port)
        try:
            connection.sock = stack.enter_context(tls.wrap_socket(tcp, server_hostname=host)) if tls else tcp
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            status, body = response.status, response.read(LONGEST_ANSWER_BYTES)
        except (OSError, http.client.HTTPException):
            if time.monotonic() < until:
                raise
    if time.monotonic() >= until:  # what was cut off may look whole
        raise TimeoutError
    return status, body


def _read(status: int, body: bytes) -> Answered | Unusable:
    if status in (401, 403):
        return Unusable("endpoint_key", f"The endpoint refuses the key (status {status}).", "Give another key.")
    if status != 200:
        hint = "The base URL is the part before /models, such as https://host/v1."
        return Unusable("endpoint_status", f"The endpoint answers its list of models with status {status}.", hint)
    try:
        listed = json.loads(body)["data"]
        return Answered(tuple(str(one["id"])[:LONGEST_NAME] for one in listed[:MOST_NAMES]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return Unusable("endpoint_answer", "The endpoint's list of models is not in OpenAI's shape.")
