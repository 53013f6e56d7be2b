"""Names that no object may have."""

from __future__ import annotations

# addresses of the console stand where names of objects do: /deployments/new/, /models/new/, /deployments/do/stop/
RESERVED = frozenset({"new", "do"})


def reserved(name: str) -> str:
    """Returns what to say to who asks for a reserved name; "" where it may be had."""
    if name.lower() not in RESERVED:
        return ""
    return f"The name {name} is reserved for pages of the console; use another one."
