"""Endpoints that others run, asked at the level of bytes."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.domain import addresses
from controlplane.lib import endpoint
from controlplane.lib.endpoint import Answered, Unusable, ask_models

BODY = b'{"data": [{"id": "a"}]}'


@contextmanager
def server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """One connection that `talk` answers as it likes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                try:
                    if connection.recv(10_000):
                        talk(connection)
                except OSError:
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(10)


def slowly(begin: bytes, piece: bytes) -> Callable[[socket.socket], None]:
    def talk(connection: socket.socket) -> None:
        connection.sendall(begin)
        for _ in range(400):
            connection.sendall(piece)
            time.sleep(0.02)

    return talk


@pytest.mark.parametrize(
    "talk",
    [
        slowly(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", b" "),
        slowly(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
        slowly(b"HTTP/1.1 200 OK\r\n\r\n" + BODY, b" "),
        slowly(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
)
def test_an_endpoint_that_drips_holds_nobody_up(talk: Callable[[socket.socket], None]) -> None:
    with server(talk) as url:
        found = ask_models(url, "k", 0.3)
    assert isinstance(found, Unusable)
    assert found.code == "endpoint_timeout"


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"null", b'{"data": 3}', b'{"data": {"a": 1}}', b'{"data": [1]}', b"\xff", b"[" * 100_000],
)
def test_an_odd_list_is_told_and_no_failure(body: bytes) -> None:
    def talk(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    with server(talk) as url:
        found = ask_models(url, "")
    assert isinstance(found, Unusable)
    assert found.code == "endpoint_answer"


def test_long_names_are_cut() -> None:
    def long(connection: socket.socket) -> None:
        connection.sendall(b'HTTP/1.1 200 OK\r\n\r\n{"data": [{"id": "' + b"a" * 9000 + b'"}]}')

    with server(long) as url:
        assert ask_models(url, "") == Answered(("a" * endpoint.LONGEST_NAME,))


@pytest.mark.parametrize("url", ["http://0.0.0.0:1", "http://[::]:1", "https://127.0.0.1:1", "http://a..b", "http://"])
def test_what_can_not_be_reached_is_one_sentence(url: str) -> None:
    found = ask_models(url, "k", 1.0)
    assert isinstance(found, Unusable)
    assert found.code == "endpoint_unreachable"


def test_a_name_that_leads_to_a_forbidden_address_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[socket.socket] = []

    def listen(connection: socket.socket) -> None:
        heard.append(connection)

    monkeypatch.setattr(addresses, "is_forbidden", lambda text: text == "127.0.0.1")
    with server(listen) as url:
        found = ask_models(url.replace("127.0.0.1", "localhost"), "secret")
    assert isinstance(found, Unusable)
    assert found.code == "endpoint_address"
    assert heard == []


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as tls:
                heard.append(tls.recv(10_000))

        thread = threading.Thread(target=serve)
        thread.start()
        found = ask_models(f"https://localhost:{listening.getsockname()[1]}", "secret")
        thread.join(10)
    assert isinstance(found, Unusable)
    assert "certificate" in found.message
    assert b"secret" not in b"".join(heard)
