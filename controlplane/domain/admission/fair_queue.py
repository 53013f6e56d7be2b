"""Who is next: tiers by weight, tenants inside a tier by tokens served, requests of a tenant in order of arrival.

Start-time fair queueing (Goyal, Vin, Cheng 1996): a tenant's tag is the virtual time at which its next request starts.
It grows by tokens / weight as the tenant is served, so the one that was served least is next, and a tenant that comes
back after a pause begins at the present, without credit for the time it asked nothing.

Concurrency
    One owner; changes in place.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from controlplane.domain.admission.ticket import Ticket

MOST_TAGS = 10_000  # tenants that wait for nothing are forgotten beyond so many


# The waiting requests of one tenant in one tier, by id: the first is found, and any taken out, at once.
_Line = OrderedDict[str, Ticket]


@dataclass(slots=True)
class TierQueue:
    """The waiting requests of one tier."""

    weight: float
    count: int = 0
    bytes: int = 0
    tag: float = 0.0  # of the tier among the tiers
    now: float = 0.0  # virtual time: the start of the request that was served last
    lines: dict[str, _Line] = field(default_factory=dict)
    line_bytes: dict[str, int] = field(default_factory=dict)  # of each line
    tags: dict[str, float] = field(default_factory=dict)

    def push(self, ticket: Ticket) -> None:
        """Appends a request to its tenant's line."""
        line = self.lines.get(ticket.tenant)
        if line is None:
            line = self.lines[ticket.tenant] = OrderedDict()
            self.tags[ticket.tenant] = max(self.tags.get(ticket.tenant, 0.0), self.now)
        line[ticket.id] = ticket
        self.count += 1
        self.bytes += ticket.body_bytes
        self.line_bytes[ticket.tenant] = self.line_bytes.get(ticket.tenant, 0) + ticket.body_bytes

    def heads(self) -> Iterator[Ticket]:
        """Yields the first request of each tenant, the tenant served least first. Those that avoid a replica hold up
        nobody: the first behind them comes too."""
        for tenant in sorted(self.lines, key=self.tags.__getitem__):
            for ticket in self.lines[tenant].values():
                yield ticket
                if not ticket.avoid:
                    break

    def remove(self, ticket: Ticket) -> bool:
        """Takes a request out, wherever it stands; returns whether it was there."""
        line = self.lines.get(ticket.tenant)
        if line is None or line.pop(ticket.id, None) is None:
            return False
        self.count -= 1
        self.bytes -= ticket.body_bytes
        self.line_bytes[ticket.tenant] -= ticket.body_bytes
        if not line:
            del self.lines[ticket.tenant], self.line_bytes[ticket.tenant]
        return True

    def pushed_out_by(
        self, ticket: Ticket, most: int, most_bytes: int, spared: Callable[[str], bool] | None = None
    ) -> list[Ticket] | None:
        """Returns whose places a request takes in a queue that holds no more: the last ones of the tenant that holds
        most of it, as long as that tenant still holds no less than the newcomer's does then. [] = there is room, None =
        none is made. So one tenant's requests can not keep the others out. A newcomer with a right to a seat takes a
        place of anyone that is not `spared`."""
        if self.count < most and self.bytes + ticket.body_bytes <= most_bytes:
            return []
        lines = self.lines if spared is None else {name: one for name, one in self.lines.items() if not spared(name)}
        out: list[Ticket] = []
        if self.count >= most:
            longest = max(lines, key=lambda tenant: len(lines[tenant]), default=ticket.tenant)
            own = len(self.lines.get(ticket.tenant, ())) if spared is None else -1
            if longest == ticket.tenant or len(lines[longest]) <= own + 1:
                return None
            out.append(next(reversed(lines[longest].values())))
        missing = self.bytes + ticket.body_bytes - most_bytes - sum(one.body_bytes for one in out)
        if missing <= 0:
            return out
        largest = max(lines, key=lambda tenant: self.line_bytes[tenant], default=ticket.tenant)
        own_bytes = self.line_bytes.get(ticket.tenant, 0) + ticket.body_bytes if spared is None else 0
        left = self.line_bytes.get(largest, 0) - own_bytes
        for one in reversed(lines.get(largest, {}).values()):
            if missing <= 0:
                break
            if one not in out:
                out.append(one)
                missing, left = missing - one.body_bytes, left - one.body_bytes
        return out if missing <= 0 and left >= 0 and largest != ticket.tenant else None

    def served(self, tenant: str, tokens: float, tenant_weight: float) -> None:
        """Charges a tenant for tokens that it is about to get (or gives back what it did not use, when negative)."""
        start = max(self.tags.get(tenant, 0.0), self.now) if tokens >= 0 else self.tags.get(tenant, self.now)
        if tokens >= 0:
            self.now = max(self.now, min(start, self._least()))
        self.tags[tenant] = start + tokens / max(tenant_weight, 1e-9)
        if len(self.tags) > MOST_TAGS:
            self.forget()

    def ahead_of(self, ticket: Ticket, weight: Callable[[str], float]) -> int:
        """Returns how many requests are expected to go before this one: all of its own tenant, and of each other one
        those whose turn begins no later than its own would, each being as long as the first of them. Who was served
        little lately stands before those who were served much, however many of theirs wait."""
        own = self.lines.get(ticket.tenant)
        ahead = len(own) if own else 0
        start = max(self.tags.get(ticket.tenant, 0.0), self.now)
        start += ahead * ticket.tokens / max(weight(ticket.tenant), 1e-9)
        for tenant, line in self.lines.items():
            tag = self.tags[tenant]
            if tenant != ticket.tenant and tag <= start:
                each = max(1, next(iter(line.values())).tokens) / max(weight(tenant), 1e-9)
                ahead += min(len(line), int((start - tag) / each) + 1)
        return ahead

    def _least(self) -> float:
        waiting = [self.tags[tenant] for tenant in self.lines]
        return min(waiting) if waiting else float("inf")

    def forget(self) -> None:
        """Drops the tags that say no more than the present does."""
        self.tags = {tenant: tag for tenant, tag in self.tags.items() if tenant in self.lines or tag > self.now}


class FairQueue:
    """All that waits for one deployment."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.tiers = {name: TierQueue(weight) for name, weight in weights.items()}
        self.count = 0  # of all tiers; read for every request
        self._now = 0.0

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Takes over changed weights, and which tiers there are; one in which something waits stays."""
        for name, weight in weights.items():
            tier = self.tiers.get(name)
            if tier is None:
                self.tiers[name] = TierQueue(weight, tag=self._now)
            else:
                tier.weight = weight
        for name in [one for one, tier in self.tiers.items() if one not in weights and not tier.count]:
            del self.tiers[name]

    def __len__(self) -> int:
        return self.count

    def ahead_of(self, ticket: Ticket, weight: Callable[[str], float]) -> int:
        """Returns how many requests are expected to go before this one, were it appended now: those of its own tier,
        and of the others as many as their weight lets go meanwhile."""
        own = self.tiers[ticket.tier]
        ahead = own.ahead_of(ticket, weight)
        for tier in self.tiers.values():
            if tier is not own and tier.count:
                ahead += min(tier.count, int((ahead + 1) * tier.weight / max(own.weight, 1e-9)))
        return ahead

    def push(self, ticket: Ticket) -> None:
        """Appends a request; its tier begins at the present when nothing of it waited."""
        tier = self.tiers[ticket.tier]
        if not tier.count:
            tier.tag = max(tier.tag, self._now)
        tier.push(ticket)
        self.count += 1

    def remove(self, ticket: Ticket) -> bool:
        """Takes a request out, wherever it stands; returns whether it was there."""
        if not self.tiers[ticket.tier].remove(ticket):
            return False
        self.count -= 1
        return True

    def in_order(self) -> Iterator[tuple[str, TierQueue]]:
        """Yields the tiers in which something waits, the one served least for its weight first."""
        waiting = [(tier.tag, name, tier) for name, tier in self.tiers.items() if tier.count]
        for _, name, tier in sorted(waiting, key=lambda one: one[:2]):
            yield name, tier

    def served(self, ticket: Ticket, tokens: float, tenant_weight: float) -> None:
        """Charges tier and tenant for tokens; negative gives back."""
        if not self.count:
            self._served_alone(ticket, tokens, tenant_weight)
            return
        tier = self.tiers[ticket.tier]
        if tokens >= 0:
            self._now = max(self._now, min((one.tag for one in self.tiers.values() if one.count), default=tier.tag))
            tier.tag = max(tier.tag, self._now)
        tier.tag += tokens / tier.weight
        tier.served(ticket.tenant, tokens, tenant_weight)

    def _served_alone(self, ticket: Ticket, tokens: float, tenant_weight: float) -> None:
        """`served` while nothing waits, without the searches: every request of a quiet hour comes here."""
        tier, tenant = self.tiers[ticket.tier], ticket.tenant
        if tokens < 0:
            tier.tag += tokens / tier.weight
            tier.tags[tenant] = tier.tags.get(tenant, tier.now) + tokens / (tenant_weight or 1e-9)
            return
        tag = tier.tag
        if tag > self._now:
            self._now = tag
        else:
            tag = self._now
        tier.tag = tag + tokens / tier.weight
        tags = tier.tags
        start = tags.get(tenant, 0.0)
        if start > tier.now:
            tier.now = start
        else:
            start = tier.now
        tags[tenant] = start + tokens / (tenant_weight if tenant_weight > 1e-9 else 1e-9)
        if len(tags) > MOST_TAGS:
            tier.forget()

    def check_invariants(self) -> None:
        """Raises AssertionError with the count that is wrong."""
        counted = sum(tier.count for tier in self.tiers.values())
        assert self.count == counted, f"{self.count} counted, {counted} in the tiers"
        for name, tier in self.tiers.items():
            tickets = [ticket for line in tier.lines.values() for ticket in line.values()]
            assert tier.count == len(tickets), f"{name}: {tier.count} counted, {len(tickets)} wait"
            assert tier.bytes == sum(ticket.body_bytes for ticket in tickets), f"{name}: bytes do not add up"
            lines = {tenant: sum(one.body_bytes for one in line.values()) for tenant, line in tier.lines.items()}
            assert tier.line_bytes == lines, f"{name}: {tier.line_bytes} bytes counted by tenant, {lines} wait"
            assert all(line for line in tier.lines.values()), f"{name}: an empty line is kept"
            assert all(ticket.tier == name for ticket in tickets), f"{name}: a request of another tier waits here"
