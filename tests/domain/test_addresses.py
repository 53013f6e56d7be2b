from __future__ import annotations

import pytest

from controlplane.domain.addresses import is_forbidden


@pytest.mark.parametrize(
    "text",
    [
        "169.254.169.254",
        "169.254.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "100.100.100.200",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "ff02::1",
    ],
)
def test_where_credentials_of_machines_are_is_forbidden_in_every_spelling(text: str) -> None:
    assert is_forbidden(text)


@pytest.mark.parametrize(
    "text", ["10.0.0.5", "127.0.0.1", "::1", "::ffff:10.0.0.5", "192.168.1.9", "fd12::7", "8.8.8.8", "vllm", "a b", ""]
)
def test_other_addresses_and_names_are_not(text: str) -> None:
    assert not is_forbidden(text)
