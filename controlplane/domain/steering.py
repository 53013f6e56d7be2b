"""Which fields of a request steer the engine itself, and so are never a client's.

A client that could set them would pass others in the engine's queue, read or write their KV cache, run a template of
its own, or make a prefix hit that tells what another tenant has asked. `cache_salt` is set by the gateway.
"""

from __future__ import annotations

# vLLM 0.10 to 0.32: fields of its chat and completion requests that are not OpenAI's and reach beyond the answer
_VLLM = frozenset(
    {
        "priority",
        "cache_salt",
        "request_id",
        "kv_transfer_params",
        "ec_transfer_params",
        "vllm_xargs",
        "chat_template",
        "mm_processor_kwargs",
        "media_io_kwargs",
        "logits_processors",
        "prompt_embeds",
    }
)
_BY_ENGINE = {"vllm": _VLLM}
_SALTED = frozenset({"/chat/completions", "/completions"})
_NONE: frozenset[str] = frozenset()


def fields(engine: str) -> frozenset[str]:
    """Returns the names of the fields that are taken out of a request for an engine of this kind."""
    return _BY_ENGINE.get(engine, _NONE)


def salted_paths(engine: str) -> frozenset[str]:
    """Returns where requests get the tenant's salt, so that prefixes are shared inside a tenant only."""
    return _SALTED if engine == "vllm" else _NONE
