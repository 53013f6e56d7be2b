"""Whether some controller leads and publishes; for health checks."""

from __future__ import annotations

from django.db import Error

from controlplane.deployments import selectors


def problem() -> str:
    """Returns what is wrong in one sentence, the empty text when a controller leads and its snapshot is fresh."""
    try:
        return selectors.control_state().problem
    except Error as error:
        return f"PostgreSQL does not answer: {str(error).strip()}"
