"""The console's own server: TLS, and whose X-Forwarded headers count."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane import serve
from controlplane.env import SettingError

ROOT = Path(__file__).resolve().parents[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


@contextmanager
def console(port: int, **variables: str) -> Iterator[None]:
    environ = {**os.environ, "HEADWORKS_CONSOLE_PORT": str(port), "HEADWORKS_SECRET_KEY": "a test's", **variables}
    process = subprocess.Popen([sys.executable, "-m", "controlplane.serve"], cwd=ROOT, env=environ)
    try:
        deadline = time.monotonic() + 30
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None and time.monotonic() < deadline, "the console does not start"
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(20)


def health(url: str, headers: dict[str, str], context: ssl.SSLContext | None = None) -> tuple[int, str]:
    request = urllib.request.Request(url + "/healthz", headers=headers)
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
        return answer.status, answer.headers.get("Strict-Transport-Security", "")


def test_half_a_certificate_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWORKS_TLS_CERT", "cert.pem")
    with pytest.raises(SettingError, match="belong together"):
        serve.server_options()


def test_a_certificate_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWORKS_TLS_CERT", "/nowhere/cert.pem")
    monkeypatch.setenv("HEADWORKS_TLS_KEY", "/nowhere/key.pem")
    with pytest.raises(SettingError, match=r"cert\.pem"):
        serve.server_options()


def test_no_proxy_is_trusted_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert serve.server_options()["proxy_headers"] is False
    monkeypatch.setenv("HEADWORKS_TRUSTED_PROXIES", "10.0.0.1, 10.0.0.2")
    assert serve.server_options()["forwarded_allow_ips"] == ["10.0.0.1", "10.0.0.2"]


@pytest.mark.services
def test_the_console_speaks_tls(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    port = free_port()
    with console(port, HEADWORKS_TLS_CERT=str(cert), HEADWORKS_TLS_KEY=str(key), HEADWORKS_HTTPS="1"):
        context = ssl.create_default_context(cafile=str(cert))
        status, transport = health(f"https://127.0.0.1:{port}", {}, context)
        assert status == 200 and "max-age" in transport


@pytest.mark.services
def test_the_body_of_a_request_that_wishes_for_another_protocol_is_never_a_request() -> None:
    port = free_port()
    body = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    wish = b"connection: upgrade\r\nupgrade: h2c\r\n"
    head = b"POST /healthz HTTP/1.1\r\nhost: localhost\r\n" + wish + b"content-length: %d\r\n\r\n"
    with console(port), socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(head % len(body))
        time.sleep(0.3)
        client.sendall(body)
        client.settimeout(30)
        got = client.recv(10_000)
        client.settimeout(1)
        with pytest.raises(TimeoutError):
            while True:
                got += client.recv(10_000)
    assert got.count(b"HTTP/1.1 ") == 1


@pytest.mark.services
def test_with_a_certificate_cookies_are_for_tls_alone(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    port = free_port()
    with console(port, HEADWORKS_TLS_CERT=str(cert), HEADWORKS_TLS_KEY=str(key)):
        context = ssl.create_default_context(cafile=str(cert))
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/login/", timeout=10, context=context) as answer:
            cookies = answer.headers.get_all("Set-Cookie")
    assert cookies and all("; Secure" in cookie for cookie in cookies)


@pytest.mark.services
@pytest.mark.parametrize(("trusted", "is_https"), [("127.0.0.1", True), ("10.9.9.9", False)])
def test_forwarded_headers_count_from_trusted_proxies_alone(trusted: str, is_https: bool) -> None:
    port = free_port()
    with console(port, HEADWORKS_TRUSTED_PROXIES=trusted, HEADWORKS_HTTPS="1"):
        _status, transport = health(f"http://127.0.0.1:{port}", {"X-Forwarded-Proto": "https"})
        assert bool(transport) is is_https
