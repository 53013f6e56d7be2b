"""What an estimate takes for granted because a case says nothing of it: null means that it is not known.

The ledger notes what it fills in by itself (lengths, batches, ranks, the card). Here is the rest: what a deployment
leaves to the engine on purpose, and a case may only have left out.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    return tuple(
        sentence
        for name, sentence in sentences.items()
        if name not in given and f"{name} is not given" not in noted and f"{name} is not known" not in noted
    )


def _is_unsaid(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING_SAID)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
