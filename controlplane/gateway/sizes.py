"""How many tokens the requests of one deployment take: estimated before, learned from the engine's own counts after.

Concurrency
    One event loop; changes in place.
"""

from __future__ import annotations

from controlplane.domain.admission.estimates import OutputSizes, PromptSizes
from controlplane.domain.admission.ticket import Ticket
from controlplane.gateway.asks import Ask

MIXED_TOKENS = 1000  # what a picture is taken to be, whatever its bytes
LEAST_BYTES_A_TOKEN, MOST_BYTES_A_TOKEN = 1, 12  # no vocabulary is further off with text
WITHOUT_OUTPUT = "/embeddings"


class Sizes:
    """`prompts` by path: a chat's template costs tokens, an embedding has none. `mean_tokens`: of a request, lately."""

    __slots__ = ("mean_tokens", "outputs", "prompts")

    def __init__(self) -> None:
        self.prompts: dict[str, PromptSizes] = {}
        self.outputs = OutputSizes()
        self.mean_tokens = 0.0

    def prompt(self, ask: Ask, path: str, most: int | None) -> int:
        """Returns the tokens of a request's prompt; `most` is what the largest replica holds."""
        prompts = self.prompts.get(path)
        if prompts is None:
            prompts = self.prompts[path] = PromptSizes()
        if not ask.mixed_bytes:
            tokens = prompts.estimate(ask.body_bytes)
        else:
            tokens = prompts.estimate(ask.body_bytes - ask.mixed_bytes) + MIXED_TOKENS * ask.mixed_count
        if most is not None and most < tokens <= 2 * most:
            return most  # an estimate may be wrong by half: the engine, which counts, shall say no
        return tokens

    def output(self, ask: Ask, path: str, tenant: str) -> int:
        """Returns the tokens that all its answers together may have."""
        output = ask.output_limit()
        if output is None:
            output = 0 if path == WITHOUT_OUTPUT else self.outputs.high(tenant)
        return output * ask.choices() if _may_be_many(ask) else output

    def learn(self, ticket: Ticket, ask: Ask, path: str, prompt_tokens: int, output_tokens: int) -> None:
        """Takes the engine's own counts of a whole answer. A prompt with pictures says nothing about text; one that is
        far from any text (numbers of tokens, say) counts as the nearest that may be."""
        body_bytes = ticket.body_bytes
        if prompt_tokens > 0 and body_bytes and not ask.mixed_bytes:
            usual_bytes = max(prompt_tokens * LEAST_BYTES_A_TOKEN, min(body_bytes, prompt_tokens * MOST_BYTES_A_TOKEN))
            self.prompts[path].learn(usual_bytes, ticket.prompt_tokens, prompt_tokens)
        if path != WITHOUT_OUTPUT:
            self.outputs.learn(ticket.tenant, output_tokens // ask.choices() if _may_be_many(ask) else output_tokens)
        self.mean_tokens += 0.02 * (prompt_tokens + output_tokens - self.mean_tokens)


def _may_be_many(ask: Ask) -> bool:
    return "n" in ask.fields or "prompt" in ask.fields
