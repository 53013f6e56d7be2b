"""What the simulated engine's log says. It speaks vLLM's sentences for memory, and its own for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from controlplane.domain.observed import EngineFacts
from engine_adapters.vllm import logs as vllm_logs

OPENING = "Simulated engine for "


def read_facts(log_lines: Sequence[str]) -> EngineFacts:
    """Returns what the start-up log tells."""
    facts = vllm_logs.read_facts(log_lines)
    started = any(line.startswith(OPENING) for line in log_lines)
    return replace(facts, engine_version="simulated") if started else facts


def explain_exit(log_lines: Sequence[str], exit_text: str) -> tuple[str, str, str]:
    """Returns (code, sentence, hint) for a simulated engine that ended."""
    if any("dies on its first generation" in line for line in log_lines):
        return (
            "died_on_generation",
            "The simulated engine was told to end at its first generation.",
            "Switch the setting dies_on_first_generation off.",
        )
    return vllm_logs.explain_exit(log_lines, exit_text)
