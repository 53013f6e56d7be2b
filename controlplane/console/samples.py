"""Newest samples for the first paint of a page; after that the websocket brings them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controlplane.lib import sample_store, valkey

Samples = Mapping[str, Mapping[str, Any]]


def newest(subjects: Iterable[str]) -> Samples:
    """Returns the newest sample of each subject; nothing when Valkey can't be reached: then the page shows "–"."""
    asked = list(subjects)
    if not asked:
        return {}
    client = valkey.connect()
    try:
        return sample_store.newest(client, asked)
    except valkey.ERRORS:
        return {}
    finally:
        client.close()


def totals(fields: Sequence[str]) -> dict[str, float | None]:
    """Returns the sums over all deployments that are reported now; None for what nobody reports."""
    client = valkey.connect()
    try:
        return sample_store.sums(client, "deployment", fields)
    except valkey.ERRORS:
        return dict.fromkeys(fields)
    finally:
        client.close()
