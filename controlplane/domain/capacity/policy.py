"""How carefully is planned: what practitioners keep in hand."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.parallelism.bounds import Bounds

USUAL_SAFETY = (0.7, 0.85)
USUAL_UTILIZATION = (0.5, 0.7)
HOURS_PER_MONTH = 730.0


@dataclass(frozen=True, slots=True)
class Policy:
    """Shares from above 0 to 1.

    `safety_factor`: of what a replica carries in theory or in a benchmark, what is counted on at the peak.
    `utilization_target`: of what replicas carry, what the mean load may use. `hot_share`: of the replicas that the
    peak takes, those that always run; the others are cold, started for the peak and lent to other work in between.
    `survive_node_loss`: the peak is still carried when one node is lost.
    """

    safety_factor: float = 0.8
    utilization_target: float = 0.6
    hot_share: float = 0.7
    survive_node_loss: bool = True
    hours_per_month: float = HOURS_PER_MONTH

    def check(self) -> None:
        """Raises RefusedError naming each field that can't be."""
        bounds = Bounds("capacity")
        for field in ("safety_factor", "utilization_target", "hot_share"):
            bounds.number(field, getattr(self, field), 0, 1, above=True)
        bounds.number("hours_per_month", self.hours_per_month, 0, 744, above=True)
        bounds.flag("survive_node_loss", self.survive_node_loss)
        bounds.settle()

    def advice(self) -> tuple[str, ...]:
        """What is unusual about it."""
        found = []
        low, high = USUAL_SAFETY
        if self.safety_factor > high:
            found.append(
                f"A safety factor of {self.safety_factor:g} trusts the figure nearly fully; {low:g} to {high:g} is "
                "usual for figures from a model or a benchmark. Near 1 it suits figures measured under real traffic."
            )
        elif self.safety_factor < low:
            found.append(f"A safety factor of {self.safety_factor:g} is below the usual {low:g} to {high:g}.")
        low, high = USUAL_UTILIZATION
        if not low <= self.utilization_target <= high:
            found.append(
                f"A utilization target of {self.utilization_target:.0%} is outside the usual {low:.0%} to {high:.0%}: "
                "above it queues grow fast, below it cards are paid for and idle."
            )
        return tuple(found)
