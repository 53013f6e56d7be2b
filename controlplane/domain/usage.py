"""What the gateways report as used, on its way to the rows that tenants are accounted by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What one key used of one deployment in one minute, as far as one batch tells; rows of several batches add up.

    An entry of the usage stream holds a list of these in field `usage`, all of one batch. A gateway that does not know
    whether a batch arrived sends it again under the same `batch_id`.
    """

    minute: int  # its start, seconds since the epoch
    tenant: str
    key_id: str
    deployment: str
    requests: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    batch_id: str = ""
