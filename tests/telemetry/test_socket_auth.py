from __future__ import annotations

import pytest

from controlplane.telemetry.socket_auth import is_own_origin


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:8000", "localhost:8000"),
        ("http://127.0.0.1:8000", "127.0.0.1:8000"),
        ("http://[::1]:8000", "[::1]:8000"),
        ("https://localhost", "localhost"),
        ("https://localhost:443", "localhost"),
        ("HTTP://LOCALHOST:8000", "localhost:8000"),
    ],
)
def test_the_consoles_own_address_is_its_own(origin: str, host: str) -> None:
    assert is_own_origin(origin, host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://evil.example", "localhost:8000"),
        ("http://localhost:3000", "localhost:8000"),  # cookies know no ports, so another port is another site
        ("http://evil.example:8000", "evil.example:8000"),  # a name that is not ours, pointed at us
        ("http://localhost:8000.evil.example", "localhost:8000"),
        ("http://localhost:8000@evil.example", "localhost:8000"),
        ("file://localhost", "localhost"),
        ("null", "localhost:8000"),
        ("", "localhost:8000"),
        ("http://localhost:8000", ""),
    ],
)
def test_anything_else_is_foreign(origin: str, host: str) -> None:
    assert not is_own_origin(origin, host)


def test_a_trusted_origin_is_taken(settings: pytest.FixtureRequest) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://console.example"]  # type: ignore[attr-defined]
    assert is_own_origin("https://console.example", "10.0.0.1:8000")
