"""What an estimate takes for granted because a case says nothing of it: null means that it is not known.

The ledger notes what it fills in by itself (lengths, batches, ranks, the card). Here is the rest: what a deployment
leaves to the engine on purpose, and a case may only have left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controlplane.domain.footprint.hybrid import KvLayout
from controlplane.domain.ledger.setup import Setup
from controlplane.domain.specs import kv_precision

_NOTHING_SAID = ("", "null", "?")


def unsaid(case: Mapping[str, object], setup: Setup, layout: KvLayout) -> tuple[str, ...]:
    """A sentence for each field of the case that is not given, matters, and is not noted in the ledger already."""
    kinds = setup.precision
    sentences = {
        "model": "model is not given; its name may have told of quantization and launchers.",
        "architecture": f"architecture is not given; that of {setup.model.name[:100]} was taken, as known here.",
        "gpu": "gpu is not given; number formats were not checked, links were guessed by the memory.",
        "pipeline_parallel": "pipeline_parallel is not given; 1 was taken.",
        "dtype": f"dtype is not given; {kinds.plain_dtype.upper()} was taken, the model's own.",
        "quantization": f"quantization is not given; {kinds.weights.label} was taken, by name and files of the model.",
        "block_size": f"block_size is not given; {layout.block_tokens} was taken, as the engine does here.",
        "engine": f"engine is not given; {setup.rules.generation} of vLLM was taken, by the version.",
        "multimodal": "multimodal is not given; text alone was assumed.",
        "speculative": "speculative is not given; no drafts were assumed.",
        "cpu_offload_gb": "cpu_offload_gb is not given; all weights were taken to stay on the card.",
        "kv_cache_memory_gib": "kv_cache_memory_gib is not given; the cache was taken to be what the rest leaves.",
    }
    if not kv_precision.is_said(_text(case.get("kv_cache_dtype"))):
        sentences["kv_cache_dtype"] = f"kv_cache_dtype is not given; {kinds.kv.name.upper()} was taken."
    if setup.multimodal_tokens:
        del sentences["multimodal"]  # the size of its image is noted
    noted = " ".join(setup.assumptions)
    given = {name for name, value in case.items() if name != "kv_cache_dtype" and not _is_unsaid(value)}
    missing = (
        sentence
        for name, sentence in sentences.items()
        if name not in given and f"{name} is not given" not in noted and f"{name} is not known" not in noted
    )
    return (*missing, *_taken(setup, layout))


def _taken(setup: Setup, layout: KvLayout) -> Iterator[str]:
    """What no field of a case asks for, and what one seldom tells."""
    wishes, rules = setup.wishes, setup.rules
    if wishes.free_bytes is None and not wishes.foreign_bytes:
        yield "free_memory_at_start_gib is not given; the card was taken as empty, without processes of others."
    if not wishes.adapters:
        yield "No LoRA adapters were counted: a case has no field for them."
    if not wishes.reserve_bytes:
        yield "No reserve was counted: a case has no field for one."
    if setup.draft is not None and setup.draft.own:
        yield "The draft is taken to be the model's own layers, whose weights lie in its files and were counted."
    elif setup.draft is not None and not setup.draft.weight_bytes:
        yield "The draft is taken to need no weights and no cache of its own."
    states = max((group.state_blocks for group in layout.groups if not group.block_tokens), default=0)
    if states:
        if states > 1:
            yield (
                f"A request was taken to hold {states} blocks of each group of recurrent states: "
                f"engine {rules.label} caches prefixes of states by default."
            )
        else:
            yield (
                "A request was taken to hold 1 block of each group of recurrent states: "
                f"engine {rules.label} caches no prefixes of states by default."
            )


def _is_unsaid(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING_SAID)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
