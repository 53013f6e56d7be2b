"""One request on its way through the gateway: what is known and decided of it so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from controlplane.domain.admission.ticket import Ticket
from controlplane.domain.routing import RoutedDeployment, RoutedKey
from controlplane.gateway.asks import Ask, for_model, read_ask
from controlplane.gateway.client import Client, Headers
from controlplane.gateway.gate import Gate
from controlplane.gateway.quotas import Limits
from controlplane.gateway.relay import Relay


class TurnedAwayError(Exception):
    """The deployment that the ladder has sent a request to does not answer it, and nothing has reached the client."""


@dataclass(slots=True)
class Call:
    """One authorized request on its way."""

    path: str
    ask: Ask
    key: RoutedKey
    deployment: RoutedDeployment
    client: Client
    request_id: str
    arrived_at: float  # of the monotonic clock
    hops: int = 0  # gateways that it has come through before
    body: bytes = b""  # as it came, and `headers` too: another process may have to decide
    headers: Headers = field(default_factory=list)
    passed_on: bool = False  # another process has been asked, and did not own the deployment any more
    degraded: str = ""  # what was done to it because its deployment is saturated
    capped: str = ""  # how its answer is capped, as in `degraded`
    came_back: bool = False  # it was sent elsewhere by the ladder and turned away there
    capped_first: str = ""  # `capped` as it was before it was sent elsewhere
    diverted_from: str = ""  # the deployment it was meant for, when the ladder has sent it here instead
    gate: Gate = field(init=False)
    ticket: Ticket = field(init=False)
    queued_s: float = 0.0  # how long it waited for its seat
    is_late: bool = False  # it has waited since it arrived: for quotas, or in another process
    tried: str = ""  # the replica that failed before the client got anything
    relay: Relay | None = None
    ignored: Sequence[str] = ()  # fields that are not a client's to set
    used_tokens: int | None = None  # by the engine's own count
    limits: Limits | None = None  # what is reserved of quotas, until it is settled
    spent: tuple[int, int] | None = None  # prompt and output tokens that count; None = nothing came of it

    def go_back(self, deployment: RoutedDeployment) -> None:
        """It was turned away where the ladder has sent it: it is as it was before that."""
        self.body = for_model(self.body, deployment.name)
        self.ask = read_ask(self.body, self.path)
        self.deployment, self.diverted_from, self.came_back = deployment, "", True
        self.capped = self.degraded = self.capped_first
        self.is_late, self.tried, self.ignored = True, "", ()
        self.limits = self.spent = self.used_tokens = self.relay = None

    def client_gone(self) -> None:
        if self.relay is not None:
            self.relay.client_gone()
        else:
            self.gate.leave(self.ticket)
