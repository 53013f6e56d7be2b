"""What changed in vLLM's memory sums from version to version (0.2 to 0.33).

Source: the engine's own code of 0.32 and the start-up logs of older versions. Each rule is named by what it changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from controlplane.domain.specs.fields import shown

Version = tuple[int, int, int]

NEWEST: Version = (0, 32, 0)
_EARLIEST_KNOWN = (0, 6)
_LATEST_KNOWN = (0, 33)
BEFORE_092: Version = (0, 12, 0)  # a version of the middle of the time in which 0.90 was the default utilization
_V0_USUAL: Version = (0, 7, 0)
_LEAST_OF_V1 = 8.0  # compute capability that V1 asked for until 0.10.2
_NUMBER = re.compile(r"(?<!\d)v?(\d{1,3})\.(\d{1,3})(?:\.(\d{1,4}))?")
_BUILDS = re.compile(
    r"(?i)\b(?:fork|nightly|main|master|trunk|head|dev|latest|newest|recent|old|source|custom|build|docker|image|wheel|"
    r"unknown|any|v[01]|none|null|n/?a|rocm|cpu|xpu|stated|20[12]\d)\b|^[\s?.\-]*$|^(?=.*\d)[0-9a-f]{7,40}$"
)
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class EngineRules:
    """The rules of one engine version."""

    version: Version
    generation: Literal["V0", "V1"]
    assumption: str = ""  # why this version, where none was given

    @property
    def label(self) -> str:
        """The version as people write it: "0.32"."""
        return ".".join(str(part) for part in self.version[:2])

    @property
    def default_utilization(self) -> float:
        """Share of the card that is taken when none is given: 0.92 from 0.23 on, 0.90 before."""
        return 0.92 if self.version >= (0, 23, 0) else 0.90

    @property
    def graphs_inside_budget(self) -> bool:
        """From 0.21 CUDA graphs are estimated and subtracted; before, they were captured on top of the budget."""
        return self.generation == "V1" and self.version >= (0, 21, 0)

    @property
    def keeps_latents(self) -> bool:
        """Whether latent attention keeps its latents: from 0.7.1 on (0.7.0 is taken as that, since people write 0.7).
        Before, keys and values were kept a head."""
        return self.version >= (0, 7, 0)

    @property
    def mla_entry_alignment_bytes(self) -> int:
        """0.7 aligned every MLA entry of the cache to 256 bytes: 1152 became 1280."""
        return 256 if (0, 7, 0) <= self.version < (0, 8, 0) else 1

    def latent_block_tokens(self, capability: float | None, *, sparse: bool = False, packed: bool = False) -> int:
        """Tokens a block of latent attention, where none were asked for, by compute capability (None = not known).

        FlashMLA, on 9 alone, and sparse attention take 64; Triton's kernels, on all cards before and after, 16.
        FlashAttention's, preferred on 9 by 0.32 unless the cache is in FP8 (`packed`), take 16 and FlashInfer's on 10
        take 32; which version changed to them is not certain: 0.16 was taken.
        """
        major = None if capability is None else int(capability)
        if self.version < (0, 8, 0) or (major not in (None, 9, 10) and not sparse):
            return 16
        if sparse or major is None or self.version < (0, 16, 0):
            return 64
        if major == 10:
            return 32
        return 64 if packed else 16

    @property
    def keeps_null_block(self) -> bool:
        """The check for one request leaves out the block that the pool holds back for itself."""
        return self.version >= (0, 32, 0)

    @property
    def windows_save_memory(self) -> bool:
        """Whether layers with a sliding window hold only their window; before, they held whole requests."""
        return self.generation == "V1" and self.version >= (0, 9, 1)

    @property
    def takes_cache_of_files(self) -> bool:
        """Whether "auto" is the cache that NVIDIA's ModelOpt files were calibrated for: seen in 0.32, taken
        from 0.11 on; older ones wanted to be told."""
        return self.version >= (0, 11, 0)

    @property
    def cross_takes_cache(self) -> bool:
        """Whether layers that attend to an image take their part of every block: V0 counted all layers of a model that
        is no hybrid (`get_num_layers_by_block_type`)."""
        return self.generation == "V0"

    def chunks_save_memory(self, *, eagle: bool = False) -> bool:
        """Whether layers with chunked attention hold only their chunk: from 0.9.2, not from 0.10.1 on, for its latency
        (vllm#21761), and again since vllm#29627, which 0.13 has for certain and 0.12 perhaps. Never beside EAGLE."""
        held = (0, 9, 2) <= self.version < (0, 10, 1) or self.version >= (0, 13, 0)
        return self.generation == "V1" and held and not eagle

    @property
    def batches_in_flight(self) -> int:
        """Asynchronous scheduling, the default from 0.14, plans one batch while another one runs."""
        return 2 if self.version >= (0, 14, 0) else 1

    @property
    def state_blocks_a_request(self) -> int:
        """Blocks of a recurrent layer for one request: two since prefix caching of states is the default."""
        return 2 if self.version >= (0, 20, 0) else 1

    def state_blocks(self, kind: str) -> int:
        """The same for one kind of layer: Mamba 2 holds a third one since it exports a state from inside a prefill,
        which 0.32 does (`num_prefill_checkpoint_blocks`) and 0.30 did not yet."""
        exports = self.version >= (0, 32, 0) and kind == "mamba2"
        return self.state_blocks_a_request + int(exports)

    @property
    def padding_ratio(self) -> float:
        """Buckets of layers up to this much longer than the shortest one are padded instead of cut."""
        return 1.5 if self.version >= (0, 13, 0) else 1.25

    @property
    def least_expert_block(self) -> int:
        """Rows and columns of the smallest block that FP8 experts may be cut into. 0.32 makes their scales finer where
        that helps; 0.31 refused 192 as no multiple of 128 (vllm#48173; which version changed it is not certain)."""
        return 32 if self.version >= (0, 32, 0) else 128

    @property
    def prints_tokens_by_concurrency(self) -> bool:
        """Whether "GPU KV cache size" is concurrency x length; for hybrids it was blocks / groups x block before."""
        return self.version >= (0, 21, 0)

    @property
    def checks_stage_against_whole_model(self) -> bool:
        """Under pipeline parallelism the check compared all layers with the memory of one stage (vllm#34076)."""
        return self.version < (0, 16, 0)

    @property
    def sorts_whole_vocabulary(self) -> bool:
        """The sampler sorted all logits until kernels without a sort became the default."""
        return self.version < (0, 19, 0)

    @property
    def charges_collectives(self) -> bool:
        """Whether buffers of collectives count as the engine's own: the snapshot came before they were made."""
        return self.version < (0, 29, 0)

    @property
    def scales_yarn(self) -> bool:
        """Whether the limit under YaRN was the original one times the factor, whatever the config's own limit was."""
        return self.version < (0, 32, 0)

    @property
    def keeps_short_under_longrope(self) -> bool:
        """Whether a length that is not given is the original one under LongRoPE, for the quality of short requests."""
        return self.version >= (0, 11, 1)

    def chunks_prefill(self, max_model_len: int, *, multimodal: bool, latent: bool) -> bool:
        """V1 always does; V0 by default only above 32k tokens, and not for multimodal or latent-attention models."""
        if self.generation == "V1":
            return True
        return max_model_len > 32768 and self.version >= (0, 4, 0) and not multimodal and not latent

    def default_batched_tokens(
        self,
        card_bytes: int | None,
        card_name: str,
        max_model_len: int,
        *,
        multimodal: bool = False,
        latent: bool = False,
    ) -> int:
        """Tokens a step when `max_num_batched_tokens` is not given, for the API server."""
        if self.generation == "V0":
            if self.chunks_prefill(max_model_len, multimodal=multimodal, latent=latent):
                return 2048 if self.version >= (0, 7, 0) else 512
            return max(max_model_len, 5120 if multimodal else 2048)
        if card_bytes is not None and card_bytes >= 160 * _GIB and self.version >= (0, 24, 0):
            return 16384
        return 8192 if self._is_large(card_bytes, card_name) else 2048

    def default_sequences(self, card_bytes: int | None, card_name: str) -> int:
        """Requests a step when `max_num_seqs` is not given."""
        if self.generation == "V1" and self._is_large(card_bytes, card_name):
            return 1024
        return 256

    def _is_large(self, card_bytes: int | None, card_name: str) -> bool:
        """Whether the larger defaults apply: at first by name, then from 70 GiB on, then without A100."""
        name = card_name.lower()
        if self.version < (0, 8, 4):
            return "h100" in name or "h200" in name
        if card_bytes is None or card_bytes < 70 * _GIB:
            return False
        return "a100" not in name or self.version < (0, 9, 0)


def parse_version(text: str) -> Version | None:
    """The first version number in `text` ("0.6.5/0.6.6", "0.21+", "fork ~0.19", "v0.8.x"), or None."""
    found = _NUMBER.search(text)
    if found is None:
        return None
    return int(found[1]), int(found[2]), int(found[3] or 0)


def names_a_build(text: str) -> bool:
    """Whether `text` has a version number, or words of which people call a build without one ("fork", "nightly")."""
    return parse_version(text) is not None or _BUILDS.search(text) is not None


def rules_for(
    version_text: str | None,
    engine: str | None = None,
    *,
    utilization: float | None = None,
    oldest_for_model: Version = (0, 0, 0),
    capability: float | None = None,
) -> EngineRules:
    """The rules of a version; without one, those of the newest that agrees with the rest that is known.

    `utilization` 0.90 without a version hints at a time before 0.23, where 0.90 was the default, unless the model
    needs a younger engine (`oldest_for_model`). `capability` is the compute capability of an NVIDIA card: those below
    8.0 ran V0 until 0.10.2 (vllm#23614, vllm#24022; two starts of 0.8.5 on a 2080 Ti).
    """
    version = parse_version(version_text) if version_text else None
    asked = (engine or "").strip().upper()
    if version is not None:
        generation: Literal["V0", "V1"] = "V0" if version < (0, 8, 0) else "V1"
        if asked == "V0" and version < (0, 11, 0):
            generation = "V0"
        elif asked == "V1":
            generation = "V1"
        elif capability is not None and capability < _LEAST_OF_V1 and (0, 8, 0) <= version < (0, 10, 2):
            reason = "V0 was taken, as engine is not given: before 0.10.2 it ran cards below compute capability 8.0."
            return EngineRules(version, "V0", reason)
        return EngineRules(version, generation, _beyond_known(version, asked))
    why = f"vllm_version {shown(version_text)} names no version" if version_text else "vllm_version is not given"
    if asked == "V0":
        return EngineRules(_V0_USUAL, "V0", f"{why}; the rules of V0 in 0.7 were taken.")
    if utilization is not None and utilization == 0.90 and oldest_for_model < BEFORE_092:
        reason = f"{why}; 0.12 was taken: gpu_memory_utilization 0.90 was the default before 0.23."
        return EngineRules(BEFORE_092, "V1", reason)
    return EngineRules(NEWEST, "V1", f"{why}; the rules of {NEWEST[0]}.{NEWEST[1]} were taken.")


def _beyond_known(version: Version, asked: str) -> str:
    """What is said of a version whose own rules are not known, or of V0 where it is no more."""
    told = ".".join(str(part) for part in version[:2])
    if version[:2] > _LATEST_KNOWN:
        known = ".".join(str(part) for part in _LATEST_KNOWN)
        return f"Version {told} is later than {known}, the latest whose rules are known; those of {known} were taken."
    if version[:2] < _EARLIEST_KNOWN:
        known = ".".join(str(part) for part in _EARLIEST_KNOWN)
        return f"Version {told} is earlier than {known}, the first whose rules are known; those of {known} were taken."
    return "V1 was taken: engines from 0.11 on have no V0 any more." if asked == "V0" and version >= (0, 11, 0) else ""
