"""Fields of the planner's form that are rarely given, and those for what was measured."""

from __future__ import annotations

from django.utils.translation import gettext as _

from controlplane.console.dialogs import Field, Values
from controlplane.console.planner_numbers import maker
from controlplane.deployments.planner.fields import LORA_RANKS, USUAL_DRAFT_TOKENS, USUAL_LORA_RANK
from controlplane.fleet import selectors as fleet


def engine_fields(values: Values) -> list[Field]:
    """Returns settings of the engine that most deployments do without."""
    make = maker(values)
    drafts = (
        ("", _("None")), ("ngram", _("From the prompt (n-gram)")), ("mtp", _("The model's own layers (MTP)")),
        ("eagle3", "EAGLE-3"), ("draft_model", _("A draft model")),
    )  # fmt: skip
    media = (("", _("As the model")), ("taken", _("Taken")), ("refused", _("Refused: text alone")))
    ranks = (("", _("Default") + f" ({USUAL_LORA_RANK})"), *((str(one), str(one)) for one in LORA_RANKS))
    pools = (("", _("Default")), *((row.name, row.name) for row in fleet.pools()))
    files = _("Folder or name of its files; EAGLE-3 and a draft model need one.")
    return [
        make("block_size", _("Block size"), _("tokens")),
        make("cpu_offload_gib", _("Weights in the machine's memory"), "GiB", _("Of each card; read over PCIe.")),
        Field("speculative", _("Proposed tokens"), "select", values.get("speculative", ""), choices=drafts, full=True),
        Field("draft_model", _("Draft model"), "text", values.get("draft_model", ""), files, full=True),
        make("speculative_tokens", _("Proposed a step"), _("tokens"), hint=str(USUAL_DRAFT_TOKENS)),
        make("max_loras", _("LoRA adapters"), "", _("In one batch.")),
        Field("max_lora_rank", _("Rank of adapters"), "select", values.get("max_lora_rank", ""), choices=ranks),
        Field("media", _("Pictures and films"), "select", values.get("media", ""), choices=media),
        Field("pool", _("Pool"), "select", values.get("pool", ""), choices=pools),
    ]


def more_fields(values: Values) -> list[Field]:
    """Returns what is rarely given."""
    make = maker(values)
    spare = (("true", _("One node may be lost")), ("false", _("No spare")))
    version = Field("vllm_version", _("Version of vLLM"), "text", values.get("vllm_version", ""), placeholder="0.32")
    return [
        make("gpu_memory_total_gib", _("Memory of a card"), "GiB", _("As its driver reports it.")),
        make("foreign_gib", _("Held by others"), "GiB"),
        make("reserve_gib", _("To stay free"), "GiB"),
        make("link_group", _("Cards joined by NVLink"), "", _("1: PCIe alone.")),
        make("price_per_hour", _("Price of a card"), _("an hour")),
        version,
        make("safety_factor", _("Safety factor"), "", _("Of what a replica carries, what is counted on.")),
        make("utilization_target", _("Utilization target"), "", _("What the mean load may use.")),
        make("hot_share", _("Hot share"), "", _("Of the replicas, those that always run.")),
        Field("survive_node_loss", _("Spare"), "select", values.get("survive_node_loss", "true"), choices=spare),
    ]


def measured_fields(values: Values) -> list[Field]:
    """Returns what was measured on the set-up, which corrects what is predicted."""
    make = maker(values)
    own = (("true", _("Used")), ("false", _("Left out")))
    return [
        Field(
            "points",
            _("Measured points"),
            "area",
            values.get("points", ""),
            _("One a line: requests at once in one replica, ms a token, ms to the first token (may be left out)."),
            placeholder="1, 9.8, 74\n16, 14.2, 310",
            full=True,
        ),
        Field(
            "own_measurements",
            _("Measured by own replicas"),
            "select",
            values.get("own_measurements", "true"),
            _("Of the same model, card and engine; points given above go before them."),
            choices=own,
            full=True,
        ),
        make("requests_per_s_a_card", _("Requests a card carries"), _("a second"), _("Capacity goes by it.")),
        make("tokens_per_s_a_card", _("Tokens a card writes"), _("a second"), _("In the place of requests.")),
    ]
