from __future__ import annotations

import pytest

from controlplane.domain.admission.guarantees import oversold


@pytest.mark.parametrize(
    ("guaranteed", "before", "others", "seats", "why"),
    [
        (0.3, 0.0, 0.7, None, ""),
        (0.4, 0.0, 0.7, None, "whole"),
        (0.4, 0.5, 0.7, None, ""),  # it was oversold, and is less so now
        (0.5, 0.5, 0.7, 16, ""),  # nothing changes
        (0.6, 0.5, 0.7, None, "whole"),
        (0.025, 0.0, 0.0, 8, "seat"),
        (0.125, 0.0, 0.0, 8, ""),
        (0.025, 0.0, 0.0, None, ""),  # nobody knows the seats
        (0.025, 0.0, 0.0, 0, ""),  # nothing runs
        (0.025, 0.025, 0.0, 8, ""),  # only its weight is changed
        (0.025, 0.5, 0.0, 8, "seat"),
        (0.0, 0.5, 0.0, 8, ""),
    ],
)
def test_a_guarantee_is_more_than_there_is(
    guaranteed: float, before: float, others: float, seats: int | None, why: str
) -> None:
    assert oversold(guaranteed, before=before, others=others, seats=seats) == why


def test_forty_tenants_can_t_each_be_promised_a_part_of_one_of_eight_seats() -> None:
    assert [oversold(0.025, before=0.0, others=0.025 * others, seats=8) for others in range(40)] == ["seat"] * 40
