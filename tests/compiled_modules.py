"""`pytest -p tests.compiled_modules` tests the compiled form of the gateway's path (`controlplane.compiled`)."""

from __future__ import annotations

import pytest

from controlplane import compiled

IN_USE = compiled.use()


def pytest_configure(config: pytest.Config) -> None:
    if not IN_USE:
        pytest.exit("there is no build of the gateway's path as it is now: make prepare", returncode=2)


def pytest_report_header() -> str:
    return f"compiled: {compiled.build_name()}"
