"""Whether a gateway process that gives no sign of life hangs, or only had no CPU: what its parent asks of each of
several, and a single one asks of itself (`watchdog`)."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.ownership import could_have_answered_s
from controlplane.lib.cpu_time import CpuTime

LOOK_S = 2.0
HUNG_AFTER_S = 20.0  # the others give it up much earlier: this is for its own connections
STARVED_AFTER_S = 120.0


@dataclass(frozen=True, slots=True)
class Silence:
    """Since when a process has given no new `sign`, and what the kernel said of it then."""

    sign: int
    since: float
    cpu: CpuTime | None

    def is_too_long(self, now: float, cpu: CpuTime | None) -> bool:
        """Returns whether it hangs; `cpu` is what the kernel says of it now, None = nothing."""
        silent_s = now - self.since
        if cpu is None or self.cpu is None:
            return silent_s > STARVED_AFTER_S
        ran_s, waited_s = cpu.ran_s - self.cpu.ran_s, cpu.waited_s - self.cpu.waited_s
        could_s = could_have_answered_s(silent_s, ran_s, waited_s, wants_cpu=cpu.wants_cpu)
        return could_s > HUNG_AFTER_S or silent_s > STARVED_AFTER_S
