"""What a client is told whom admission gave no seat."""

from __future__ import annotations

import time

from controlplane.domain.admission.ticket import Refusal
from controlplane.domain.routing import RoutedDeployment
from controlplane.gateway.errors import GatewayError, no_replica


def refusal_error(
    refusal: Refusal, deployment: RoutedDeployment, waited_s: float, overload_status: int
) -> GatewayError:
    """Returns the answer to a refused request, with how long it waited."""
    model = deployment.name
    if refusal.code == "no_replica":
        error = no_replica(model, deployment.ready_in_s(time.time()))
    elif refusal.code == "too_long":
        error = GatewayError(400, "context_length_exceeded", refusal.why, param="messages")
    elif refusal.code == "too_many":
        error = GatewayError(400, "context_length_exceeded", f"`{model}`: {refusal.why}")
    else:
        text = f"`{model}` has more to do than it can. {refusal.why} Try again in {refusal.retry_after_s} s."
        error = GatewayError(overload_status, "overloaded", text, retry_after_s=refusal.retry_after_s)
    error.headers.append((b"x-headworks-queue-ms", b"%d" % (waited_s * 1000)))
    return error
