from __future__ import annotations

import pytest

from controlplane.domain import card_health


@pytest.mark.parametrize(
    ("observed", "why"),
    [
        ({}, ""),
        ({"uncorrected_errors": None, "remap_pending": None, "remap_failed": None}, ""),
        ({"uncorrected_errors": 0, "remap_pending": False, "remap_failed": False}, ""),
        ({"uncorrected_errors": 1}, "counts 1 memory error that could not be corrected since its last reset"),
        ({"uncorrected_errors": 3}, "counts 3 memory errors that could not be corrected since its last reset"),
        ({"remap_pending": True}, "waits for a reset that replaces defective memory"),
        ({"uncorrected_errors": 3, "remap_failed": True}, "has defective memory that its driver could not replace"),
        ({"uncorrected_errors": "3", "remap_failed": 1}, ""),
    ],
)
def test_a_card_is_unfit_only_by_what_its_driver_says(observed: dict[str, object], why: str) -> None:
    assert card_health.why_unfit(observed) == why
