"""What the gateways report as used, on its way to the rows that tenants are accounted by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What one key used of one deployment in one minute, as far as one batch tells; rows of several batches add up."""

    minute: int  # start of the minute, seconds since the epoch
    tenant: str
    key_id: str
    deployment: str
    requests: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class UsageBatch:
    """What one gateway process hands on at once; an entry of the usage stream, in field `usage`."""

    gateway: str
    rows: tuple[UsageRow, ...]
