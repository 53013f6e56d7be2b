"""The deployment that follows from a planner's answer, as far as Headworks can start it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controlplane.deployments.planner import start_settings
from controlplane.deployments.planner.answers import Answer
from controlplane.deployments.planner.fields import DRAFTS_WITH_FILES
from controlplane.deployments.planner.inputs import Inputs
from controlplane.deployments.services.checking import MAX_ACCELERATORS, MAX_REPLICAS
from controlplane.domain.capacity.plan import Plan
from controlplane.domain.desired import SettingValue
from controlplane.domain.parallelism.candidate import Candidate
from engine_adapters.vllm.settings import FIELDS

_MOST_COPIES = max(int(field.maximum or 1) for field in FIELDS if field.name == "data_parallel_size")


@dataclass(frozen=True, slots=True)
class Start:
    """`why_not` "" = a deployment of this can be made. `variant` "" = it has to be chosen; `note` says what is to be
    looked for then."""

    why_not: str
    note: str
    variant: str
    pool: str  # "" = the usual one
    replicas: int
    tensor_parallel: int
    pipeline_parallel: int
    accelerators_per_replica: int
    settings: Mapping[str, SettingValue]

    @property
    def can_start(self) -> bool:
        return not self.why_not

    @property
    def body(self) -> dict[str, object]:
        """What REST takes for a deployment."""
        return {
            "engine": "vllm",
            "variant": self.variant,
            **({"pool": self.pool} if self.pool else {}),
            "replicas": self.replicas,
            "accelerators_per_replica": self.accelerators_per_replica,
            "tensor_parallel": self.tensor_parallel,
            "pipeline_parallel": self.pipeline_parallel,
            "settings": dict(self.settings),
        }


def of(answer: Answer, inputs: Inputs, plan: Plan | None = None) -> Start:
    """The deployment of the answer's split; with as many replicas as `plan` has, else as the cards hold."""
    split = answer.split
    replicas = max(1, answer.copies) if plan is None else plan.replicas
    return Start(
        why_not=_why_not(answer, inputs, replicas),
        note=" ".join(_notes(answer, inputs)),
        variant=answer.subject.variant,
        pool=inputs.pool,
        replicas=replicas,
        tensor_parallel=split.tensor,
        pipeline_parallel=split.pipeline,
        accelerators_per_replica=split.cards,
        settings=start_settings.of(answer, inputs),
    )


def why_no_split(candidate: Candidate) -> str:
    """Why Headworks starts no engine with this split; the empty text where it does."""
    nodes, split = candidate.layout.nodes_a_copy, candidate.split
    if nodes > 1:
        return f"A copy takes {nodes} nodes, and Headworks starts each replica inside one node."
    if split.cards > MAX_ACCELERATORS or split.attention_copies > _MOST_COPIES:
        return f"A copy takes {split.cards} cards, more than Headworks gives one replica."
    return ""


def _why_not(answer: Answer, inputs: Inputs, replicas: int) -> str:
    """The first thing in the way; the empty text where nothing is."""
    if answer.chosen is None:
        return answer.why_not or "This does not run."
    refusal = why_no_split(answer.chosen) or _beyond_limits(answer, replicas)
    if refusal:
        return refusal
    wanted, while_loading = start_settings.other_weights(answer, inputs)
    if answer.subject.variant and wanted and not while_loading:
        return (
            f"Weights in {wanted.upper()} have to lie in the model's files: vLLM makes only FP8 of others while it "
            "loads. Add a variant with such files."
        )
    cache = start_settings.why_no_cache(inputs)
    if cache:
        return cache
    if inputs.speculative in DRAFTS_WITH_FILES and not inputs.draft_model:
        return "The draft model is not given: vLLM needs the folder or the name of its files."
    return ""


def _beyond_limits(answer: Answer, replicas: int) -> str:
    """What Headworks or the engine refuses by its size."""
    if replicas > MAX_REPLICAS:
        return (
            f"{replicas} replicas are more than the {MAX_REPLICAS} that one deployment may have: plan for a part of "
            "the load, or with larger replicas."
        )
    return ""


def _notes(answer: Answer, inputs: Inputs) -> Iterator[str]:
    """What is to be looked for in the form, and what was put in other words there."""
    wanted, while_loading = start_settings.other_weights(answer, inputs)
    if not answer.subject.variant and wanted and not while_loading:
        yield f"Choose a variant whose files hold {wanted.upper()} weights."
    share = start_settings.share_with_reserve(answer, inputs)
    if share is not None:
        yield f"What is to stay free is kept by the share of GPU memory, which becomes {share:g}."
