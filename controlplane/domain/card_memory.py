"""Who holds how much of one accelerator's memory.

Guarantees
    What is reserved, what others use and what is free add up to the accelerator's memory (`check_invariants`).
    A claim on the whole accelerator stands alone. Where the memory is not known only the whole can be claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

# a driver keeps a little on every card that is in use, and readings are rounded
_TOLERATED_BYTES = 512 * 2**20
_TOLERATED_SHARE = 0.02


class OversoldError(ValueError):
    """More was given away than there is."""


@dataclass(frozen=True, slots=True)
class Claim:
    """`size_bytes` None = the whole accelerator. `releasing`: its owner has ended; its memory is not back yet.

    `missing_bytes`: so much of it at most did not come back in time; it counts until it does or a person releases it.
    """

    owner: str
    size_bytes: int | None = None
    releasing: bool = False
    missing_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class CardMemory:
    """One accelerator. `foreign_seen_bytes` is what processes use that are not ours."""

    total_bytes: int | None
    claims: tuple[Claim, ...] = ()
    foreign_seen_bytes: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether somebody has all of it."""
        return any(claim.size_bytes is None for claim in self.claims)

    @property
    def reserved_bytes(self) -> int | None:
        """None = the memory is not known."""
        if self.total_bytes is None:
            return None
        if self.is_whole:
            return self.total_bytes - min(self.total_bytes, self.foreign_seen_bytes)
        return sum(claim.size_bytes or 0 for claim in self.claims)

    @property
    def foreign_bytes(self) -> int | None:
        """What others use, as far as it was not promised to somebody."""
        if self.total_bytes is None:
            return None
        return max(0, min(self.foreign_seen_bytes, self.total_bytes - (self.reserved_bytes or 0)))

    @property
    def free_bytes(self) -> int | None:
        """What can still be reserved."""
        if self.total_bytes is None:
            return None
        return self.total_bytes - (self.reserved_bytes or 0) - (self.foreign_bytes or 0)

    @property
    def overdrawn_bytes(self) -> int:
        """What others use of memory that was reserved before they came."""
        return 0 if self.foreign_bytes is None else self.foreign_seen_bytes - self.foreign_bytes

    def fits(self, size_bytes: int | None) -> bool:
        """Whether so much, or the whole, can be reserved beside what is held."""
        if size_bytes is None:
            return not self.claims
        return size_bytes > 0 and not self.is_whole and self.free_bytes is not None and size_bytes <= self.free_bytes

    def with_claim(self, claim: Claim) -> CardMemory:
        """The card after a claim. Raises OversoldError when it does not fit."""
        if not self.fits(claim.size_bytes):
            raise OversoldError(f"{claim.size_bytes} bytes for {claim.owner} do not fit: {self.free_bytes} are free")
        return replace(self, claims=(*self.claims, claim))

    @property
    def leaving(self) -> frozenset[str]:
        """Who has ended, and whose memory is on its way back; not those whose memory did not come in time."""
        return frozenset(claim.owner for claim in self.claims if claim.releasing and claim.missing_bytes is None)

    def without(self, owners: Iterable[str]) -> CardMemory:
        """The card as if these had given back what they hold."""
        gone = frozenset(owners)
        return replace(self, claims=tuple(claim for claim in self.claims if claim.owner not in gone))

    def check_invariants(self) -> None:
        """Raises OversoldError when the parts are not the whole, or a claim on the whole does not stand alone."""
        if self.is_whole and len(self.claims) > 1:
            raise OversoldError("a claim on the whole accelerator stands beside others")
        if self.total_bytes is None:
            if any(claim.size_bytes is not None for claim in self.claims):
                raise OversoldError("bytes are claimed of an accelerator whose memory is not known")
            return
        reserved, foreign, free = self.reserved_bytes or 0, self.foreign_bytes or 0, self.free_bytes or 0
        if min(reserved, foreign, free) < 0 or reserved + foreign + free != self.total_bytes:
            raise OversoldError(f"{reserved} reserved + {foreign} foreign + {free} free is not {self.total_bytes}")


def named_foreign_bytes(observed: Mapping[str, object]) -> int:
    """What processes that are not ours use, as far as a reading of the accelerator names them."""
    processes = observed.get("foreign_processes")
    if not isinstance(processes, list | tuple):
        return 0
    sizes = [_count(one.get("used_bytes")) for one in processes if isinstance(one, Mapping)]
    return sum(size or 0 for size in sizes)


def named_replica_bytes(observed: Mapping[str, object]) -> dict[str, int]:
    """What replicas of ours use, as far as a reading of the accelerator names them."""
    uses = observed.get("replica_use")
    if not isinstance(uses, list | tuple):
        return {}
    found: dict[str, int] = {}
    for one in uses:
        size = _count(one.get("used_bytes")) if isinstance(one, Mapping) else None
        if size is not None and isinstance(one.get("replica_id"), str):
            found[one["replica_id"]] = size
    return found


def foreign_bytes(observed: Mapping[str, object], reserved_bytes: int, total_bytes: int | None) -> int:
    """What others use: what is named, or all use beyond what is reserved (processes of other containers have no
    names). A little unnamed use is the driver's own and not counted."""
    named, used = named_foreign_bytes(observed), _count(observed.get("memory_used_bytes"))
    if used is None or total_bytes is None:
        return named
    beyond = min(used, total_bytes) - reserved_bytes
    return max(named, beyond) if beyond > tolerated_bytes(total_bytes) else named


def of_card(total_bytes: int | None, claims: tuple[Claim, ...], observed: Mapping[str, object]) -> CardMemory:
    """The memory of a card from its reservations and its newest reading."""
    if any(claim.size_bytes is None for claim in claims):
        return CardMemory(total_bytes, claims, named_foreign_bytes(observed))
    reserved = sum(claim.size_bytes or 0 for claim in claims)
    return CardMemory(total_bytes, claims, foreign_bytes(observed, reserved, total_bytes))


def tolerated_bytes(total_bytes: int) -> int:
    """Use that nobody has to account for."""
    return max(_TOLERATED_BYTES, int(_TOLERATED_SHARE * total_bytes))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
