from __future__ import annotations

import pytest

from controlplane.console import samples
from controlplane.console.views import overview


@pytest.mark.parametrize(
    ("queued", "in_engines", "shown"), [(6.0, 1.0, 7.0), (6.0, None, 6.0), (None, 2.0, 2.0), (None, None, None)]
)
def test_who_waits_in_a_gateway_counts_as_waiting(
    monkeypatch: pytest.MonkeyPatch, queued: float | None, in_engines: float | None, shown: float | None
) -> None:
    known = {"tokens_per_s": 1.0, "running": 2.0, "waiting": in_engines, "gateway_queue": queued}
    monkeypatch.setattr(samples, "totals", lambda fields: {name: known[name] for name in fields})
    assert overview._amounts() == {"tokens_per_s": 1.0, "running": 2.0, "waiting": shown}
