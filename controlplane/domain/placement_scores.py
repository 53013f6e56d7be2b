"""Which of the nodes that can take a replica is best, and how that is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Strategy = Literal["spread", "pack"]
Files = Literal["there", "missing", "unknown"]  # of the model

# names of Score, the most important one first
_ORDER: dict[Strategy, tuple[str, ...]] = {
    "spread": ("foreign", "emulated", "apart", "siblings", "without_model", "shared", "price", "left", "left_bytes"),
    "pack": ("foreign", "emulated", "apart", "without_model", "price", "alone", "left", "left_bytes", "siblings"),
}


@dataclass(frozen=True, slots=True)
class Score:
    """One node with the accelerators chosen there. Smaller is better, everywhere."""

    foreign: int = 0  # accelerators with processes that are not ours
    emulated: bool = False  # the precision has no kernels of its own there
    apart: bool = False  # cards that work together are not joined by NVLink
    siblings: int = 0  # replicas of the deployment
    files: Files = "unknown"
    shared: int = 0  # accelerators that others hold a part of
    price: float | None = None  # of one accelerator an hour; None = not known, which comes last
    left: int = 0  # accelerators that are still to be had afterwards
    left_bytes: int = 0  # on the chosen ones

    @property
    def without_model(self) -> bool:
        """Whether the model's files are not known to be there."""
        return self.files != "there"

    @property
    def alone(self) -> int:
        """For packing: smaller the more of the chosen accelerators are in use already."""
        return -self.shared

    def order(self, strategy: Strategy) -> tuple[float, ...]:
        """What is compared."""
        return tuple(self._number(name) for name in _ORDER[strategy])

    def _number(self, name: str) -> float:
        value = getattr(self, name)
        return float("inf") if value is None else float(value)


NOTHING = Score()


def deciding(best: tuple[float, ...], other: tuple[float, ...], strategy: Strategy) -> str:
    """Returns what the best of two nodes is better in, by their orders; the empty text when in nothing."""
    pairs = zip(_ORDER[strategy], best, other, strict=True)
    return next((name for name, mine, theirs in pairs if mine != theirs), "")


def why_better(decided: str, name: str) -> str:
    """Returns why a node that would do was not taken, given what decided and the name of the best."""
    if not decided:
        return f"would do as well as {name}"
    deciding = _better(decided)
    return f"would do, but {name} is better: {deciding}"


def _better(name: str) -> str:
    """What speaks for a node that is better in this."""
    match name:
        case "foreign":
            return "fewer of its accelerators have processes that are not ours"
        case "emulated":
            return "its accelerators calculate in this precision themselves"
        case "apart":
            return "NVLink joins its accelerators"
        case "siblings":
            return "fewer replicas of the deployment are there"
        case "without_model":
            return "the model's files are there already"
        case "shared":
            return "fewer of its accelerators would be shared"
        case "alone":
            return "more of its accelerators are in use already"
        case "price":
            return "its accelerators cost less"
        case "left":
            return "fewer of its accelerators stay free"
        case _:
            return "less memory stays free on its accelerators"


def why(score: Score, accelerators: int) -> str:
    """Returns why a node was taken, in sentences."""
    told = " ".join([_there(score), *_files(score)])
    what = _remark(score, accelerators)
    return f"{told} Mind: {what}" if what else told


def _there(score: Score) -> str:
    free = f"{score.left} accelerator{'s stay' if score.left != 1 else ' stays'} free there."
    if not score.siblings:
        return f"No replica of the deployment was there yet; {free}"
    return f"{score.siblings} replica{'s' if score.siblings != 1 else ''} of the deployment there already; {free}"


def _files(score: Score) -> list[str]:
    return ["The model's files are there already."] if score.files == "there" else []


def _remark(score: Score, accelerators: int) -> str:
    """The worst of what speaks against a node that was taken all the same."""
    if score.foreign:
        return f"Processes that are not ours are on {score.foreign} of them; no other place was free."
    if score.apart and accelerators > 1:
        return "NVLink does not join them; no cards that it joins were free."
    if score.emulated:
        return "They do not calculate in this precision themselves, which costs speed."
    if score.files == "missing":
        return "It has no files of the model yet; the engine fetches them before it starts."
    return ""
