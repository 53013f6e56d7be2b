"""Peak of what a step needs beside weights and cache, as the engine finds it in its dummy run at start-up.

Two peaks, of which the larger counts: the forward pass with a full token budget, and sampling with a full batch.

Forward, in elements a token: the residual, the normed input and the output of a block (3 x hidden) and what its MLP
holds at once, gate and up (2 x intermediate) and their product (1 x intermediate); with tensor parallelism the MLP's
part is split, and the reduced output and its copy come on top (2 x hidden). Two logs of one 8B model that differ in
the token budget alone show these 110,592 bytes a token within 0.5 %. A mixture of experts holds the three
intermediates of every expert that a token goes through. Layers that lie on the host come in one at a time.
Sampling, in bytes a logit: see `_SORTED_BYTES`.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.footprint.engine_rules import EngineRules
from controlplane.domain.specs.model import ModelFacts

# a row of logits is kept in 16 and 32 bits, sorted (values, 64-bit indices and the sort's own buffers), normalized,
# summed up and scattered back; 38.1 to 38.8 bytes in 11 of 16 start-ups of 0.6 to 0.12 with 5 vocabularies
_SORTED_BYTES = 38.3
_UNSORTED_BYTES = 20.5  # kernels without a sort, from about 0.19: 17 to 24 bytes in 5 start-ups
_EXPERT_CHUNK_TOKENS = 32768  # fused experts work on at most so many tokens at once
# an encoder of images, a token that it puts out: V0 sent all of a prompt through it at once (124 to 163 kB in 3
# start-ups of Qwen2-VL and Qwen2.5-VL), V1 one image (at most 90 kB in 1 start-up)
_ENCODER_BYTES_V0 = 150_000
_ENCODER_BYTES = 85_000
# those encoders have 0.67 billion parameters and see 4 patches for each token; width, and with it memory, grows with
# the third root of the parameters (0.32 MB a token in 1 start-up with an encoder of 6 billion)
_ENCODER_PARAMETERS = 670_000_000
_ONE_PATCH_FAMILIES = ("llava", "pixtral", "mistral3", "phi3_v", "mllama", "fuyu", "idefics")


@dataclass(frozen=True, slots=True)
class ActivationPeak:
    """Bytes of the parts; the peak is the largest of forward, sampling and encoder."""

    forward_bytes: int
    sampling_bytes: int
    encoder_bytes: int = 0

    @property
    def peak_bytes(self) -> int:
        """The largest part, in bytes: they do not happen at once."""
        return max(self.forward_bytes, self.sampling_bytes, self.encoder_bytes)

    @property
    def without_sampling_bytes(self) -> int:
        """The largest part where no logits are made, as on all stages of a pipeline but the last one."""
        return max(self.forward_bytes, self.encoder_bytes)

    @property
    def reason(self) -> str:
        """What the peak comes from, as a part of a sentence."""
        largest = max(
            (self.forward_bytes, "the forward pass of a full token budget"),
            (self.sampling_bytes, "the sampler's logits of a full batch"),
            (self.encoder_bytes, "the multimodal encoder's largest input"),
        )
        return largest[1]


def peak(
    facts: ModelFacts,
    rules: EngineRules,
    *,
    batched_tokens: int,
    sequences: int,
    tensor_parallel: int,
    element_bytes: int,
    multimodal_tokens: int = 0,
    visiting_layer_bytes: int = 0,
) -> ActivationPeak:
    """The peak of one rank.

    `multimodal_tokens` is what the encoder is profiled with (0 = text alone), `visiting_layer_bytes` the weights of a
    layer that comes from the host for its turn (0 = nothing is offloaded).
    """
    rows = min(sequences, batched_tokens)
    encoder = 0
    if multimodal_tokens and rules.generation == "V0":
        rows = min(rows, max(1, batched_tokens // multimodal_tokens))  # prompts with an image each fill the budget
        encoder = round(batched_tokens * _ENCODER_BYTES_V0 * _encoder_scale(facts))
        multimodal_tokens = 0  # its output is already counted
    elif multimodal_tokens:
        encoder = round(max(batched_tokens, multimodal_tokens) * _ENCODER_BYTES * _encoder_scale(facts))
    if facts.pools:
        rows = 0  # nothing is sampled
    a_logit = _SORTED_BYTES if rules.sorts_whole_vocabulary else _UNSORTED_BYTES
    hidden_bytes = batched_tokens * facts.hidden_size * element_bytes
    embedded_bytes = multimodal_tokens * facts.hidden_size * element_bytes  # what the encoder put out stays
    forward = batched_tokens * forward_elements(facts, tensor_parallel, batched_tokens) * element_bytes
    return ActivationPeak(
        forward_bytes=forward + embedded_bytes + visiting_layer_bytes,
        sampling_bytes=round(rows * facts.vocab_size * a_logit) + hidden_bytes + embedded_bytes,
        encoder_bytes=encoder,
    )


def forward_elements(facts: ModelFacts, tensor_parallel: int, batched_tokens: int = 1) -> int:
    """Elements a token that are alive at once in the widest place of one layer."""
    copies = 3 if tensor_parallel == 1 else 5
    hidden = facts.hidden_size
    attention_width = (facts.num_attention_heads + 2 * facts.num_key_value_heads) * facts.head_dim
    attention = copies * hidden + (attention_width + facts.num_attention_heads * facts.head_dim) // tensor_parallel
    if facts.experts is None:
        return max(attention, copies * hidden + 3 * facts.intermediate_size // tensor_parallel)
    routed = facts.experts.active * (hidden + 3 * expert_width(facts) // tensor_parallel)
    if batched_tokens > _EXPERT_CHUNK_TOKENS:
        routed = routed * _EXPERT_CHUNK_TOKENS // batched_tokens
    return max(attention, copies * hidden + routed + 2 * facts.experts.count)


def _encoder_scale(facts: ModelFacts) -> float:
    """Memory of this model's encoder for a token, relative to the one that was seen."""
    width = (facts.tower_parameters / _ENCODER_PARAMETERS) ** (1 / 3) if facts.tower_parameters else 1.0
    return width / 4 if facts.family.startswith(_ONE_PATCH_FAMILIES) else width


def expert_width(facts: ModelFacts) -> int:
    """Width of one routed expert: gate, up and down are 3 x hidden x width."""
    experts = facts.experts
    if experts is None or not experts.routed_params or not facts.hidden_size:
        return facts.intermediate_size
    layers = max(1, facts.num_hidden_layers)
    return max(1, round(experts.routed_params / (layers * experts.count * 3 * facts.hidden_size)))
