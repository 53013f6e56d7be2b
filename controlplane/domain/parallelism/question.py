"""What is asked of the advice on parallelism: which model, on which cards, under which load, for which purpose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from controlplane.domain.footprint.engine_rules import EngineRules
from controlplane.domain.ledger.corrections import NO_CORRECTION, Correction
from controlplane.domain.ledger.setup import Wishes
from controlplane.domain.parallelism import settings_check
from controlplane.domain.parallelism.bounds import Bounds
from controlplane.domain.parallelism.hardware import Hardware
from controlplane.domain.performance.curve import Objective
from controlplane.domain.performance.setup import Workload
from controlplane.domain.specs.model import ModelFacts
from controlplane.domain.specs.precision import Precision

Purpose = Literal["interactive", "offline"]
PURPOSES: tuple[Purpose, ...] = ("interactive", "offline")
# Taken for people who read along when nothing is asked: an answer begins within 2 s and comes at 20 tokens a second,
# about three times as fast as it is read.
USUAL_TTFT_MS = 2000.0
USUAL_TPOT_MS = 50.0


@dataclass(frozen=True, slots=True)
class Load:
    """Mean lengths of requests, and how many: a rate, or requests that are always there (closed loop); at most one.

    Neither = as much as the cards carry.
    """

    lengths: Workload
    requests_per_s: float | None = None
    concurrency: float | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """`wishes` are the engine's settings; their degrees of parallelism are what is asked for and are not read.

    `objective` bounds means of TTFT and TPOT in ms; None in it = any; an interactive purpose without any objective gets
    a usual one. `factors` and `first_token_factor` are those of a calibration of the latency model (`measured`),
    `correction` what measured starts taught the ledger.
    """

    model: ModelFacts
    precision: Precision
    hardware: Hardware
    rules: EngineRules
    load: Load
    purpose: Purpose = "interactive"
    wishes: Wishes = field(default_factory=Wishes)
    objective: Objective = field(default_factory=Objective)
    engine: str = "vllm"
    correction: Correction = NO_CORRECTION
    factors: Mapping[str, float] = field(default_factory=dict)
    first_token_factor: float = 1.0

    @property
    def target(self) -> Objective:
        """The objective, or the usual one of an interactive purpose."""
        nothing = self.objective.ttft_ms is None and self.objective.tpot_ms is None
        return Objective(USUAL_TTFT_MS, USUAL_TPOT_MS) if nothing and self.purpose == "interactive" else self.objective

    def assumptions(self) -> tuple[str, ...]:
        """What was taken because it was not given."""
        found = [*self.hardware.assumptions(), *settings_check.unknown_widths(self.model)]
        if self.target is not self.objective:
            found.append(
                f"No objective is given; {USUAL_TTFT_MS:g} ms to the first token and {USUAL_TPOT_MS:g} ms a token were "
                "taken, which suit people who read along."
            )
        return tuple(found)

    def check(self) -> None:
        """Raises RefusedError naming each field that can't be."""
        self.hardware.check()
        bounds = Bounds("parallelism")
        if self.purpose not in PURPOSES:
            bounds.refuse("purpose", self.purpose, "interactive or offline")
        bounds.number("input_tokens", self.load.lengths.input_tokens, 1, 2e7)
        bounds.number("output_tokens", self.load.lengths.output_tokens, 1, 2e7)
        bounds.optional("context_tokens", self.load.lengths.context_tokens, 1, 4e7)
        bounds.optional("requests_per_s", self.load.requests_per_s, 0, 1e7, above=True)
        bounds.optional("concurrency", self.load.concurrency, 1, 1e8)
        bounds.optional("ttft_ms", self.objective.ttft_ms, 0, 1e9, above=True)
        bounds.optional("tpot_ms", self.objective.tpot_ms, 0, 1e9, above=True)
        settings_check.check_wishes(bounds, self.wishes)
        settings_check.check_model(bounds, self.model)
        self._check_length(bounds)
        if self.load.requests_per_s is not None and self.load.concurrency is not None:
            bounds.refuse("concurrency", self.load.concurrency, "given alone, without requests_per_s")
        bounds.settle()

    def _check_length(self, bounds: Bounds) -> None:
        length = self.wishes.max_model_len
        if length is None or bounds.wrong:
            return
        mean = self.load.lengths.input_tokens + self.load.lengths.output_tokens
        if length < mean:
            bounds.refuse("max_model_len", length, f"at least {mean:.0f}, the mean prompt and answer")
