from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.embedded import settings
from controlplane.embedded.layout import Layout
from controlplane.embedded.prepare import Prepared
from controlplane.embedded.settings import LaunchSettings, ensure_secret_key, node_name, process_environment


def make_settings(bind: str = "127.0.0.1", *, tls: bool = False) -> LaunchSettings:
    return LaunchSettings(bind=bind, console_port=8000, gateway_port=8080, node_name="n", tls=tls)


def make_environment(folder: Path, **parent: str) -> dict[str, str]:
    layout = Layout(folder, folder / "home", folder / "cache")
    return process_environment(parent, layout, make_settings(), Prepared(folder / "python", folder / "model"))


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("10.1.2.3", "http://10.1.2.3:8000"),
        ("::", "http://[::1]:8000"),
        ("::1", "http://[::1]:8000"),
    ],
)
def test_the_address_is_one_that_this_machine_reaches(bind: str, url: str) -> None:
    assert make_settings(bind).console_url == url


def test_a_certificate_makes_it_https() -> None:
    assert make_settings(tls=True).gateway_url == "https://127.0.0.1:8080"


def test_own_servers_are_used_unless_others_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    environ = make_environment(tmp_path)
    assert environ["DATABASE_URL"].startswith("postgresql:///headworks?host=/tmp/hw-")
    assert environ["REDIS_URL"].startswith("unix:///tmp/hw-")
    monkeypatch.setenv("DATABASE_URL", "postgresql://db.example/hw")
    monkeypatch.setenv("REDIS_URL", "redis://cache.example")
    environ = make_environment(tmp_path, DATABASE_URL="postgresql://db.example/hw", REDIS_URL="redis://cache.example")
    assert environ["DATABASE_URL"] == "postgresql://db.example/hw"
    assert environ["REDIS_URL"] == "redis://cache.example"
    assert not settings.has_own_database()
    assert not settings.has_own_valkey()


def test_the_secret_is_handed_on_as_a_file(tmp_path: Path) -> None:
    environ = make_environment(tmp_path)
    assert environ["HEADWORKS_SECRET_KEY_FILE"] == str(tmp_path / "home" / "secret-key")
    assert "HEADWORKS_SECRET_KEY" not in environ
    assert "HEADWORKS_SECRET_KEY_FILE" not in make_environment(tmp_path, HEADWORKS_SECRET_KEY="mine")


def test_variables_of_the_shell_that_would_change_the_code_are_left_out(tmp_path: Path) -> None:
    environ = make_environment(
        tmp_path, PYTHONPATH="/x", DJANGO_SETTINGS_MODULE="y", HOME="/root", HEADWORKS_ADMIN_PASSWORD="p"
    )
    assert "HEADWORKS_ADMIN_PASSWORD" not in environ
    assert "PYTHONPATH" not in environ
    assert "DJANGO_SETTINGS_MODULE" not in environ
    assert environ["HOME"] == "/root"


def test_the_secret_key_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "secret-key"
    ensure_secret_key(path)
    made = path.read_text()
    ensure_secret_key(path)
    assert path.read_text() == made
    assert len(made.strip()) > 50
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_node_keeps_its_first_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWORKS_NODE_NAME", raising=False)
    path = tmp_path / "node-name"
    first = node_name(path)
    assert first
    path.write_text("earlier\n")
    assert node_name(path) == "earlier"
    monkeypatch.setenv("HEADWORKS_NODE_NAME", "chosen")
    assert node_name(path) == "chosen"
