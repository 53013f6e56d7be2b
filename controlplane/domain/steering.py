"""Which fields of a request steer the engine itself, and so are never a client's.

A client that could set them would pass others in the engine's queue, read or write their KV cache, run a template of
its own, or make a prefix hit that tells what another tenant has asked. `cache_salt` and `priority` are set by the
gateway. ADR 0031 says of each field of vLLM 0.32 why it passes or does not; a test compares it with the engine's own
models. What steers from within `messages` (cache keys of media, tensors) is a matter of `media`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# of vLLM's chat, completion and embedding requests: what is not OpenAI's and reaches beyond the answer, by the first
# version in which it was seen
_VLLM: tuple[tuple[tuple[int, int], frozenset[str]], ...] = (
    (
        (0, 0),
        frozenset(
            {
                "priority",
                "cache_salt",
                "request_id",
                "kv_transfer_params",
                "ec_transfer_params",
                "vllm_xargs",
                "chat_template",
                "chat_template_kwargs",  # see NESTED
                "mm_processor_kwargs",
                "media_io_kwargs",
                "logits_processors",
                "guided_decoding_backend",
                "prompt_embeds",
            }
        ),
    ),
    # a session that another tenant could name as well; marks that the operator wants; events of many tokens, by which
    # nobody could count what a client got that leaves before the end
    ((0, 32), frozenset({"session_id", "watermarking", "stream_interval"})),
)
# Of an endpoint that somebody else runs nobody here knows what it is. So all that steers any of the servers in use is
# taken out, and nothing is put in: no salt, no priority. SGLang and TensorRT-LLM; then routers, which some of these
# fields would send to a model that the key may not use or to an address of the client's; last what buys a better place
# and is paid by the operator.
_ENDPOINTS = frozenset(
    {"rid", "bootstrap_host", "bootstrap_port", "bootstrap_room", "lora_path", "session_params", "extra_key"}
    | {"custom_logit_processor", "custom_params", "data_parallel_rank", "disaggregated_params", "lora_request"}
    | {"models", "fallbacks", "route", "provider", "api_base", "base_url", "api_key", "mock_response"}
    | {"service_tier"}
)
# Of these only what is named steers; the rest are the template's own switches, such as `enable_thinking`.
NESTED: Mapping[str, frozenset[str]] = {"chat_template_kwargs": frozenset({"chat_template"})}
_SALTED = frozenset({"/chat/completions", "/completions", "/embeddings"})
_NONE: frozenset[str] = frozenset()
PRIORITIES = {"interactive": b"0", "standard": b"1", "batch": b"2"}  # vLLM serves the lowest number first


def fields(engine: str, versions: Iterable[str] = ()) -> frozenset[str]:
    """Returns the names of the fields that are taken out of a request for an engine of this kind: all that any of
    these versions knows. A version that can't be read stands for the newest. Of a name in NESTED only that."""
    if engine == "external":
        return _ENDPOINTS.union(*(names for _, names in _VLLM))
    if engine != "vllm":
        return _NONE
    known = [_number(one) for one in versions]
    newest = None if not known or None in known else max(one for one in known if one is not None)
    return _NONE.union(*(names for since, names in _VLLM if newest is None or since <= newest))


def salted_paths(engine: str) -> frozenset[str]:
    """Returns where requests get the tenant's salt, so that prefixes are shared inside a tenant only."""
    return _SALTED if engine == "vllm" else _NONE


def priority(tier: str) -> bytes:
    """Returns the priority of a tier's requests inside an engine that goes by priority, as JSON."""
    return PRIORITIES.get(tier, PRIORITIES["standard"])


def _number(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])
