"""Splits tried once for all that is asked about the same requests.

What fits and how fast one copy is does not depend on how many requests come: a ranking, the size for a demand and what
the cards carry share one `Trials`.
"""

from __future__ import annotations

from dataclasses import replace

from controlplane.domain.parallelism import copies, speed
from controlplane.domain.parallelism.copies import Fitting
from controlplane.domain.parallelism.question import Load, Question
from controlplane.domain.parallelism.rejection import Rejection
from controlplane.domain.parallelism.speed import Copy, Speed
from controlplane.domain.parallelism.split import Split


class Trials:
    """What was found for the splits of a question, each worked out when it is first asked for."""

    def __init__(self, question: Question) -> None:
        self.question = without_rates(question)
        self._fitting: tuple[list[Fitting], list[Rejection]] | None = None
        self._speeds: dict[Split, tuple[Copy, Speed]] = {}

    def calibrated(self, question: Question) -> Trials:
        """Those of the same question with factors of a calibration: what fits stays, only times change."""
        found = Trials(question)
        found._fitting = self._fitting
        return found

    def fitting(self) -> tuple[list[Fitting], list[Rejection]]:
        """The splits that start and those that don't, as lists of one's own. Raises RefusedError for wrong settings."""
        if self._fitting is None:
            self._fitting = copies.fitting(self.question)
        found, rejected = self._fitting
        return list(found), list(rejected)

    def speed(self, fitting: Fitting) -> tuple[Copy, Speed]:
        """One copy, and how fast it is within the objective."""
        held = self._speeds.get(fitting.split)
        if held is None:
            copy = speed.Copy(self.question, fitting.split, fitting.ledger, fitting.layout)
            held = copy, speed.of(copy, self.question.target)
            self._speeds[fitting.split] = held
        return held


def of(question: Question, held: Trials | None) -> Trials:
    """`held` where it is of the same question but for the rates, else new ones."""
    if held is not None and held.question == without_rates(question):
        return held
    return Trials(question)


def without_rates(question: Question) -> Question:
    """The question for requests as long, however many they are."""
    return replace(question, load=Load(question.load.lengths))
