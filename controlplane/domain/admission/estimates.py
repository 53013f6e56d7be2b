"""How many tokens a request will hold, before anybody has counted them.

Concurrency
    One owner (the gateway process that owns the deployment); changes in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controlplane.domain.admission.quantile import High

BYTES_A_TOKEN = 4.0  # English text in most vocabularies; what the model's own counts teach replaces it
MEMORY_BYTES = 200_000.0  # so much text is remembered: old counts fade as new ones come
FIRST_OUTPUT_TOKENS = 256  # until a model has answered a few times
FEW = 20  # of so many the largest stands for the 95th percentile
HIGH_SHARE = 0.95
MOST_TENANTS = 10_000
EVERYBODY_EVERY = 4  # of a tenant's answers one in so many also stands for everybody


@dataclass(slots=True)
class PromptSizes:
    """Tokens of a prompt from the bytes of its body. `error_sum` is of |estimated - counted| / counted."""

    bytes_seen: float = BYTES_A_TOKEN * 100
    tokens_seen: float = 100.0
    tokens_a_byte: float = 1.0 / BYTES_A_TOKEN
    error_sum: float = 0.0
    error_count: int = 0

    @property
    def bytes_a_token(self) -> float:
        """Bytes of a body for each token of its prompt, lately."""
        return self.bytes_seen / self.tokens_seen

    def estimate(self, body_bytes: int) -> int:
        """Returns the tokens of a prompt whose body has so many bytes."""
        return int(body_bytes * self.tokens_a_byte) + 1

    def learn(self, body_bytes: int, estimated: int, counted: int) -> None:
        """Takes the engine's own count of a prompt."""
        self.error_sum += abs(estimated - counted) / counted
        self.error_count += 1
        if self.bytes_seen > MEMORY_BYTES:
            self.bytes_seen *= 0.5
            self.tokens_seen *= 0.5
        self.bytes_seen += body_bytes
        self.tokens_seen += counted
        self.tokens_a_byte = self.tokens_seen / self.bytes_seen


def _high() -> High:
    return High(HIGH_SHARE)


@dataclass(slots=True)
class OutputSizes:
    """The 95th percentile of output tokens by tenant, and of all for those that are new.

    Two or three numbers a tenant instead of a histogram: see `quantile`.
    """

    everybody: High = field(default_factory=_high)
    by_tenant: dict[str, High] = field(default_factory=dict)

    def high(self, tenant: str) -> int:
        """Returns how many output tokens to expect at most, nearly always."""
        own = self.by_tenant.get(tenant)
        if own is None or own.count < FEW:
            own = self.everybody
        return max(0, int(own.value)) + 1 if own.count >= FEW else max(FIRST_OUTPUT_TOKENS, max(0, int(own.value)) + 1)

    def learn(self, tenant: str, tokens: int) -> None:
        """Takes the output of a whole answer."""
        own = self.by_tenant.get(tenant)
        if own is None:
            if len(self.by_tenant) >= MOST_TENANTS:
                del self.by_tenant[next(iter(self.by_tenant))]
            own = self.by_tenant[tenant] = _high()
        own.learn(tokens)
        if own.count <= FEW or own.count % EVERYBODY_EVERY == 0:
            self.everybody.learn(tokens)


def next_step(held_output: int, reached: int) -> int:
    """Returns for how many output tokens a stream that has `reached` so many shall hold room: a quarter ahead of it,
    at least 64, and never less than it holds."""
    return max(held_output, reached + max(64, reached // 4))
