"""What the fleet says of cards of one make: what they cost, and whether engines are starting on them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.db.models import Avg, Count, QuerySet

from controlplane.deployments.services import starts
from controlplane.domain.footprint import engine_rules
from controlplane.domain.ledger import advice
from controlplane.domain.ledger.advice import Advice
from controlplane.domain.specs import accelerators
from controlplane.fleet.models import Accelerator, Node


@dataclass(frozen=True, slots=True)
class Standing:
    """`price_per_hour` is the mean of the nodes with such cards that have a price, None without one; `note` tells it.
    `advice` is there while engines are starting on some of them. `engine_version` is what most of their nodes have of
    vLLM, "" where none has it; `engine_note` tells it."""

    price_per_hour: float | None = None
    note: str = ""
    advice: tuple[Advice, ...] = ()
    engine_version: str = ""

    @property
    def engine_note(self) -> str:
        """How the version is told where it was taken."""
        if not self.engine_version:
            return ""
        return f"vllm_version is not given; {self.engine_version} was taken, which most nodes with such cards have."


def of_make(name: str) -> Standing:
    """Returns what is known of cards that go by this name in the table of accelerators; one query where there are
    none."""
    cards = Accelerator.objects.filter(present=True, kind=Accelerator.Kind.GPU).order_by()
    called = [one for one in cards.values_list("name", flat=True).distinct() if _is_of(one, name)]
    if not called:
        return Standing()
    like = cards.filter(name__in=called)
    priced = Node.objects.filter(pk__in=like.values("node"), card_price_per_hour__isnull=False)
    found = priced.aggregate(mean=Avg("card_price_per_hour"), nodes=Count("pk"))
    starting = starts.on(like)
    told = advice.would_wait(starting, like.count()) if starting else ()
    version = _version(like)
    if found["mean"] is None:
        return Standing(advice=told, engine_version=version)
    price = float(found["mean"])
    nodes = found["nodes"]
    if nodes == 1:
        note = f"A card's price is not given; {price:g} an hour was taken, that of the node with such cards."
    else:
        note = f"A card's price is not given; {price:g} an hour was taken, the mean of {nodes} nodes with such cards."
    return Standing(price, note, told, version)


def _version(cards: QuerySet[Accelerator]) -> str:
    """The version of vLLM that most nodes of the cards have; of two as frequent ones the newer."""
    rows = Node.objects.filter(pk__in=cards.values("node")).values_list("engines", flat=True)
    found = Counter(str(engines["vllm"]) for engines in rows if engines.get("vllm"))
    known = [version for version in found if engine_rules.parse_version(version) is not None]
    return max(known, key=lambda version: (found[version], engine_rules.parse_version(version)), default="")


def _is_of(driver_name: str, name: str) -> bool:
    facts = accelerators.find(driver_name)
    return facts is not None and facts.name == name
