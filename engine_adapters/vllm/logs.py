"""What vLLM's log says: memory and version of a start, and why an engine ended."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.domain.observed import EngineFacts


def read_facts(log_lines: Sequence[str]) -> EngineFacts:
    """Returns what the start-up log tells; None for what it does not."""
    return EngineFacts()


def explain_exit(log_lines: Sequence[str], exit_text: str) -> tuple[str, str, str]:
    """Returns (code, sentence, hint) for an engine that ended."""
    return "engine_ended", f"The engine ended ({exit_text}).", "Read the last lines of its log."
