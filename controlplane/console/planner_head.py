"""The figures at the head of the planner's answer, each with what it is of: a card, a copy of the model, or all."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.deployments.planner.answers import Answer


@dataclass(frozen=True, slots=True)
class Amount:
    """What one copy of the model carries, and all copies together; None = it does not run like this."""

    each: float | None
    together: float | None


@dataclass(frozen=True, slots=True)
class Head:
    """`tokens` and the requests are of the caches; `output_tok_s` is at the load that is asked for, or carried."""

    copies: int
    tokens: Amount
    at_once: Amount
    at_full_length: Amount
    output_tok_s: Amount


def of(answer: Answer) -> Head:
    """The figures of an answer. Groups of ranks with attention of their own each have a cache: a copy has them all."""
    ledger, chosen, copies = answer.ledger, answer.chosen, max(1, answer.copies)
    runs = ledger.verdict.fits is not False
    groups = answer.split.attention_copies

    def held(of_group: float | None) -> Amount:
        if of_group is None or not runs:
            return Amount(None, None)
        return Amount(of_group * groups, of_group * groups * copies)

    output = None if chosen is None else chosen.at_load.output_tok_s
    return Head(
        copies=copies,
        tokens=held(ledger.tokens),
        at_once=held(ledger.concurrency_ceiling(answer.asked.request_tokens)),
        at_full_length=held(ledger.concurrency(ledger.setup.max_model_len)),
        output_tok_s=Amount(None if output is None else output / copies, output),
    )
