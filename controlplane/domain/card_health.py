"""Whether a card is fit for new replicas, by what its driver tells of errors in its memory.

What was recorded of machines so far holds no such readings, so nothing is inferred from how often errors come: a card
drops out only where its driver counts an error that it could not correct, or says that it can not repair itself. What
runs on it goes on; an error that hits an engine ends that engine.
"""

from __future__ import annotations

from collections.abc import Mapping


def why_unfit(observed: Mapping[str, object]) -> str:
    """Returns why nothing new goes on a card, of its newest `AcceleratorObserved` as plain values; "" = it is fit.

    What the driver does not say speaks for nothing.
    """
    if observed.get("remap_failed") is True:
        return "has defective memory that its driver could not replace"
    errors = observed.get("uncorrected_errors")
    if isinstance(errors, int) and errors > 0:
        told = "1 memory error" if errors == 1 else f"{errors} memory errors"
        return f"counts {told} that could not be corrected since its last reset"
    if observed.get("remap_pending") is True:
        return "waits for a reset that replaces defective memory"
    return ""
