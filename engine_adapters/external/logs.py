"""An external endpoint's log is not here."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.domain.observed import EngineFacts


def read_facts(log_lines: Sequence[str]) -> EngineFacts:
    """Returns no facts."""
    return EngineFacts()


def explain_exit(log_lines: Sequence[str], exit_text: str) -> tuple[str, str, str]:
    """Returns that the endpoint does not answer: its process is not ours to look into."""
    return (
        "endpoint_unreachable",
        f"The endpoint does not answer ({exit_text}).",
        "Look at it where it is run; check its address and key here.",
    )
