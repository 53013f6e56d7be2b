"""How many tokens the requests of one deployment take: estimated before, learned from the engine's own counts after.

Concurrency
    One event loop; changes in place.
"""

from __future__ import annotations

from controlplane.domain.admission.estimates import OutputSizes, PromptSizes
from controlplane.domain.admission.ticket import Ticket
from controlplane.gateway.asks import COMPLETIONS, EMBEDDINGS, MOST_OUTPUT, Ask

MIXED_TOKENS = 1000  # what a picture is taken to be, whatever its bytes
LEAST_BYTES_A_TOKEN, MOST_BYTES_A_TOKEN = 1, 12  # no vocabulary is further off with text
SEQUENCES_MOST = 256  # of one request: as many as most engines run at once
MEAN_MOVES = 0.02  # so far goes the mean to each new request; the first ones are their own mean
# what an engine gives to a plain completion that names no limit; the others go on to the model's end
COMPLETION_DEFAULTS = {"vllm": 16}


class Sizes:
    """`prompts` by path: a chat's template costs tokens, an embedding has none. `mean_tokens`: a sequence, lately.
    `context_tokens`: the most that a sequence may have, prompt and answer; 0 = not known."""

    __slots__ = ("context_tokens", "counted", "engine", "mean_tokens", "outputs", "prompts", "sequences_most")

    def __init__(self, sequences_most: int = SEQUENCES_MOST) -> None:
        self.engine = ""
        self.context_tokens = 0
        self.sequences_most = sequences_most
        self.prompts: dict[str, PromptSizes] = {}
        self.outputs = OutputSizes()
        self.mean_tokens = 0.0
        self.counted = 0  # requests that the mean is of

    def of(self, ask: Ask, tenant: str, most: int | None) -> tuple[int, int, int, int]:
        """Returns of a request: prompt tokens, output tokens over all its sequences, these, and how many tokens it is
        sure to need; `most` is what the largest replica holds. Raises GatewayError 400 for too many sequences."""
        prompt = self.prompt(ask, most)
        output, is_sure = self.output(ask, tenant, most)
        if not _may_be_many(ask):
            return prompt, output, 1, prompt
        if ask.path == EMBEDDINGS:  # each of its texts is one, and what does not fit at once is worked on in turn
            prompt = prompt if most is None else min(prompt, most)
            return prompt, 0, ask.inputs(self.sequences_most), prompt
        sequences = ask.sequences(self.sequences_most)
        output *= sequences
        # of a prompt half, as in `prompt`
        return prompt, output, sequences, prompt // 2 + output if is_sure and sequences > 1 else prompt

    def prompt(self, ask: Ask, most: int | None) -> int:
        """Returns the tokens of a request's prompt; `most` is what the largest replica holds."""
        prompts = self.prompts.get(ask.path)
        if prompts is None:
            prompts = self.prompts[ask.path] = PromptSizes()
        if not ask.mixed_bytes:
            tokens = prompts.estimate(ask.body_bytes)
        else:
            tokens = prompts.estimate(ask.body_bytes - ask.mixed_bytes) + MIXED_TOKENS * ask.mixed_count
        if most is not None and most < tokens <= 2 * most:
            return most  # an estimate may be wrong by half: the engine, which counts, shall say no
        return tokens

    def limit(self, ask: Ask) -> int | None:
        """Returns the tokens that each of its answers may have, by the client's word or the engine's default; None =
        nothing limits them."""
        named = ask.output_limit()
        if named is None and ask.path == COMPLETIONS and "max_tokens" not in ask.fields:
            return COMPLETION_DEFAULTS.get(self.engine)
        return named

    def may_go_on(self, ask: Ask) -> bool:
        """Returns whether nothing but the end of the context limits its answers."""
        return ask.path != EMBEDDINGS and self.limit(ask) is None

    def output(self, ask: Ask, tenant: str, most: int | None) -> tuple[int, bool]:
        """Returns the tokens that each of its answers may have, and whether that is no guess. None has more than the
        context, whatever is asked for: room for a million would be waited for, and the engine says no at once."""
        context = self.context_tokens or MOST_OUTPUT
        limit = self.limit(ask)
        if limit is not None:
            return min(limit, context), True
        if ask.path == EMBEDDINGS:
            return 0, True
        high, least = self.outputs.high(tenant), ask.least_output()
        return min(max(high, (most or 0) if least is None else least), context), False

    def learn(self, ticket: Ticket, ask: Ask, prompt_tokens: int, output_tokens: int) -> None:
        """Takes the engine's own counts of a whole answer. A prompt with pictures says nothing about text; one that is
        far from any text (numbers of tokens, say) counts as the nearest that may be."""
        body_bytes = ticket.body_bytes
        if prompt_tokens > 0 and body_bytes and not ask.mixed_bytes:
            usual_bytes = max(prompt_tokens * LEAST_BYTES_A_TOKEN, min(body_bytes, prompt_tokens * MOST_BYTES_A_TOKEN))
            self.prompts[ask.path].learn(usual_bytes, ticket.prompt_tokens, prompt_tokens)
        if ask.path != EMBEDDINGS and ask.least_output() == 0:  # else the client said where it ends, not the model
            self._learn_output(ticket.tenant, output_tokens // ticket.sequences, self.limit(ask))
        self.counted += 1
        share = max(MEAN_MOVES, 1.0 / self.counted)
        self.mean_tokens += share * ((prompt_tokens + output_tokens) / ticket.sequences - self.mean_tokens)

    def _learn_output(self, tenant: str, tokens: int, limit: int | None) -> None:
        """An answer that its limit has cut says only that it would have been no shorter."""
        if limit is None or tokens < limit or tokens >= self.outputs.high(tenant):
            self.outputs.learn(tenant, tokens)


def _may_be_many(ask: Ask) -> bool:
    fields = ask.fields
    return "n" in fields or "prompt" in fields or "best_of" in fields or ask.path == EMBEDDINGS
