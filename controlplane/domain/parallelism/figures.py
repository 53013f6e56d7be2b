"""Numbers in sentences."""

from __future__ import annotations


def figure(value: float) -> str:
    """Three digits, or all digits of a whole or a large number: 0.2, 4.47, 138, 1,500."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
