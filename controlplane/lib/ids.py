"""Random identifiers and secrets."""

from __future__ import annotations

import hashlib
import secrets

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # without look-alikes


def new_id(length: int = 12) -> str:
    """Returns a random lower-case identifier of `length` characters (5 bits each)."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def new_secret(prefix: str) -> str:
    """Returns a secret such as `hw-…` with 192 random bits."""
    return f"{prefix}-{secrets.token_urlsafe(24)}"


def secret_hash(secret: str) -> str:
    """Returns the hex SHA-256 of a secret with enough randomness of its own (keys and tokens, not passwords)."""
    return hashlib.sha256(secret.encode()).hexdigest()
