"""How fast the replicas of a deployment go lately: from a seat to the first token, and from a seat to its end.

Concurrency
    One owner (the gateway process that owns the deployment); changes in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controlplane.domain.admission.quantile import High

WEIGHT = 0.05  # of a new observation among the old ones
EVEN = 20  # observations that count alike, before old ones fade
FEW = 10  # observations before a slope is believed
HIGH_SHARE = 0.98


@dataclass(slots=True)
class Prefill:
    """The time from a seat to the first token: a line over the prompt's length, and how far above it nearly all stay.

    The line is a least-squares fit with exponentially fading weights; `slope_s` is what a prompt token takes.
    """

    count: int = 0
    slope_s: float = 0.0  # seconds a token
    tokens: float = 0.0  # means
    seconds: float = 0.0
    beyond: High = field(default_factory=lambda: High(HIGH_SHARE))  # seconds above the line
    _spread: float = 0.0  # variance of the tokens
    _product: float = 0.0  # covariance of tokens and seconds

    def expected_s(self, prompt_tokens: int) -> float:
        """Returns what the line says; 0.0 while nothing is known."""
        return max(0.0, self.seconds + self.slope_s * (prompt_tokens - self.tokens))

    def high_s(self, prompt_tokens: int) -> float:
        """Returns how long a prompt of so many tokens takes at most, nearly always; 0.0 while nothing is known."""
        return self.expected_s(prompt_tokens) + max(0.0, self.beyond.value)

    def learn(self, prompt_tokens: int, seconds: float) -> None:
        """Takes the time from a seat to the first token of one stream."""
        if self.count:
            self.beyond.learn(seconds - self.expected_s(prompt_tokens))
        self.count += 1
        weight = WEIGHT if self.count > EVEN else 1.0 / self.count
        further = prompt_tokens - self.tokens
        self.tokens += weight * further
        self._spread = (1.0 - weight) * (self._spread + weight * further * further)
        self._product = (1.0 - weight) * (self._product + weight * further * (seconds - self.seconds))
        self.seconds += weight * (seconds - self.seconds)
        if self.count >= FEW and self._spread > 0.0:
            self.slope_s = max(0.0, self._product / self._spread)


@dataclass(slots=True)
class Hold:
    """How long a seat is held by one request, on average."""

    seconds: float = 0.0
    count: int = 0

    def learn(self, seconds: float) -> None:
        """Takes the time from a seat to the end of one request."""
        count = self.count = self.count + 1
        weight = WEIGHT if count > EVEN else 1.0 / count
        self.seconds += weight * (seconds - self.seconds)
