from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from controlplane.catalog.models import Model, Variant
from controlplane.deployments import selectors
from controlplane.deployments.controller import documents, ingest
from controlplane.deployments.controller.carry_out import Reconciler
from controlplane.deployments.models import LedgerRow, Replica
from controlplane.deployments.services import deployments, history, ledgers, mean_request, model_facts, predictions
from controlplane.deployments.services.ledgers import Impossible, Known, NotKnown
from controlplane.domain.ledger import measured
from controlplane.domain.observed import EngineFacts
from controlplane.domain.placement import Asked, Make
from controlplane.fleet.models import Accelerator, Node, Reservation
from controlplane.traffic.models import UsageMinute
from engine_adapters.vllm import logs
from tests.console.calling import make_client
from tests.deployments.controller.reporting import Reporter, make_observed
from tests.deployments.making import ADA, make_deployment, make_node, make_replica, make_wish
from tests.domain.fleets import named

pytestmark = [pytest.mark.services, pytest.mark.django_db]

GIB = 2**30
H100 = Make("gpu", "NVIDIA H100 80GB HBM3", int(79.2 * GIB), "0.32.0")
CPU = Make("cpu", "Xeon, 1 core", 4 * GIB, "0.32.0")
SMALL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 576, "intermediate_size": 1536,
    "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64,
    "max_position_embeddings": 8192, "vocab_size": 49152, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip
# what vLLM 0.32 on CPU logged of exactly this model with one GiB of cache
MEASURED_CPU = EngineFacts("0.32.0", round(0.25 * GIB), GIB, 46592, 128, 22.75, 20.0)


def make_spec(path: str = "Llama-3.1-8B-Instruct", **changes: Any) -> dict[str, Any]:
    settings = {"max_model_len": 8192, **changes.pop("settings", {})}
    return {"engine": "vllm", "model_path": path, "settings": settings, **changes}


def make_variant(precision: str = "bf16", **fields: Any) -> Variant:
    model = Model.objects.create(name="house-model", display_name="House", **fields)
    return Variant.objects.create(model=model, name="v", precision=precision, path="/nowhere/house-model")


def known(spec: dict[str, Any], make: Make = H100, variant: Variant | None = None, **given: Any) -> Known:
    found = ledgers.of_spec(variant, spec, make, **given)
    assert isinstance(found, Known), found
    return found


def make_gpu_node(name: str = "n1", *, cards: int = 1) -> Node:
    node = make_node(name, cards=cards, kind="gpu")
    Accelerator.objects.filter(node=node).update(name=H100.name, memory_total_bytes=H100.total_bytes)
    return node


def settle() -> None:
    reconciler = Reconciler()
    for _ in range(10):
        if not reconciler.run(time.time()):
            return
    raise AssertionError("does not come to rest")


def passed_over(row: Replica) -> list[tuple[str, int | None, str]]:
    return named(selectors.passed_over([row.pk])[row.pk])


def make_files(folder: Path, config: Any = SMALL) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config) if not isinstance(config, str) else config)
    return str(folder)


def test_a_known_name_on_a_known_card_has_a_ledger() -> None:
    found = known(make_spec())
    assert found.ledger.verdict.fits
    assert found.claim_bytes == pytest.approx(0.92 * 79.2 * GIB, rel=1e-6)


def test_a_hard_cap_makes_the_claim_small() -> None:
    capped = known(make_spec(settings={"kv_cache_memory_bytes": 10 * GIB}))
    assert capped.ledger.available_bytes == 10 * GIB
    assert capped.claim_bytes is not None
    assert 25 * GIB < capped.claim_bytes < 40 * GIB
    both = known(make_spec(settings={"kv_cache_memory_bytes": 10 * GIB, "gpu_memory_utilization": 0.8}))
    assert both.claim_bytes == pytest.approx(0.8 * 79.2 * GIB, rel=1e-6)  # has to be free at its start
    share = known(make_spec(settings={"kv_cache_memory_share": 0.25}))
    assert share.ledger.available_bytes == int(0.25 * 79.2 * GIB)


def test_the_cpu_build_has_exactly_the_cache_it_is_given(tmp_path: Path) -> None:
    spec = make_spec(make_files(tmp_path / "small"), settings={"max_model_len": 2048})
    found = known(spec, CPU)
    assert (found.ledger.available_bytes, found.ledger.tokens) == (GIB, MEASURED_CPU.kv_cache_tokens)
    assert found.claim_bytes is None
    more = known(make_spec(spec["model_path"], settings={"kv_cache_memory_bytes": GIB + 1}), CPU)
    assert more.ledger.available_bytes == 2 * GIB
    shown = predictions.shown(found.ledger)
    assert shown["activation_bytes"] is None
    assert {part["name"] for part in shown["parts"]} == {"weights", "kv_cache"}


def test_what_is_not_known_says_why() -> None:
    for make, spec, why in (
        (H100, make_spec("/nowhere/secret"), "Nothing is known of this model"),
        (H100, make_spec(engine="simulated"), "Only vLLM"),
        (H100._replace(kind="simulated"), make_spec(), "A simulated accelerator"),
        (H100._replace(name="Banana 9", total_bytes=None), make_spec(), "is not a card that is known"),
        (H100, make_spec(settings={"quantization": "banana"}), "banana"),
    ):
        found = ledgers.of_spec(None, spec, make)
        assert isinstance(found, NotKnown)
        assert why in found.why
        assert ledgers.asked(None, spec, make) == Asked()


def test_heads_that_do_not_divide_are_refused_before_anything_starts() -> None:
    found = ledgers.of_spec(None, make_spec(tensor_parallel=3), H100)
    assert isinstance(found, Impossible)
    assert "does not divide the 32 attention heads" in ledgers.asked(None, make_spec(tensor_parallel=3), H100).refusal


def test_copies_of_attention_share_the_experts_and_add_up() -> None:
    one = known(make_spec("DeepSeek-V2-Lite"))
    settings = {"data_parallel_size": 2, "enable_expert_parallel": True}
    two = known(make_spec("DeepSeek-V2-Lite", settings=settings))
    assert two.ledger.budget.weights_bytes < 0.7 * one.ledger.budget.weights_bytes
    assert two.ceiling(1000) == 2 * (two.ledger.concurrency_ceiling(1000) or 0)


def test_experts_of_a_model_that_has_none_are_refused_before_anything_starts() -> None:
    found = ledgers.of_spec(None, make_spec(settings={"enable_expert_parallel": True}), H100)
    assert isinstance(found, Impossible)
    assert "no experts" in found.why


def test_the_drafts_own_model_counts_with_its_weights() -> None:
    config = {"method": "draft_model", "model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 5}
    drafting = known(make_spec(settings={"extra_args": f"--speculative-config '{json.dumps(config)}'"})).ledger
    alone = known(make_spec()).ledger
    assert drafting.setup.draft is not None
    assert drafting.setup.draft.tokens == 5
    assert drafting.budget.weights_bytes - alone.budget.weights_bytes == pytest.approx(2.30 * GIB, rel=0.01)


def test_a_split_that_would_cut_blocks_of_weights_is_refused_however_much_memory_there_is() -> None:
    cut = ledgers.asked(None, make_spec("Qwen3-4B-FP8", tensor_parallel=8), H100)
    assert "9728 wide feed-forwards over 8 ranks are 1216 each" in cut.refusal
    whole = make_spec("Qwen3-30B-A3B-FP8", tensor_parallel=4, settings={"enable_expert_parallel": True})
    earlier = Make(H100.kind, H100.name, H100.total_bytes, "0.12.0")
    assert ledgers.asked(None, whole, earlier).refusal == ""
    cut = ledgers.asked(None, make_spec("Qwen3-30B-A3B-FP8", tensor_parallel=4), earlier)
    assert "expert parallelism" in cut.refusal


def test_a_model_far_too_large_is_refused_with_the_sum() -> None:
    asked = ledgers.asked(None, make_spec("Llama-3.1-70B-Instruct"), H100)
    assert "is more than the 79.20 GiB of the card" in asked.refusal
    assert asked.price_per_hour


def test_a_precision_that_a_card_has_not_is_refused() -> None:
    old = Make("gpu", "Tesla V100-SXM2-32GB", 32 * GIB, "0.32.0")
    assert ledgers.asked(None, make_spec(settings={"quantization": "nvfp4"}), old).support == "none"


@pytest.mark.parametrize(
    ("config", "why"),
    [("[]", "is not an object"), ("{", "can't be read"), ('{"model_type": "llama"}', "says too little"),
     ("[" * 100_000, "can't be read"), ('"' + "x" * 3_000_000 + '"', "can't be read")],
)  # fmt: skip
def test_a_config_json_that_is_none_is_told_and_no_traceback(tmp_path: Path, config: str, why: str) -> None:
    found = ledgers.of_spec(None, make_spec(make_files(tmp_path / "odd-9z", config)), H100)
    assert isinstance(found, NotKnown)
    assert why in found.why


def test_files_go_before_the_catalog_and_the_catalog_before_names(tmp_path: Path) -> None:
    described = {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "vocab_size": 100}
    variant = make_variant(parameters=1_000_000, architecture=described)
    found = model_facts.of_variant(variant, "/nowhere/Llama-3.1-8B")
    assert isinstance(found, model_facts.Known)
    assert (found.facts.parameters, found.from_files) == (1_000_000, False)
    found = model_facts.of_variant(variant, make_files(tmp_path / "Llama-3.1-8B"))
    assert isinstance(found, model_facts.Known)
    assert found.from_files
    Model.objects.update(architecture={"num_hidden_layers": "four"})
    variant.refresh_from_db()
    found = model_facts.of_variant(Variant.objects.select_related("model").get(), "/nowhere/Llama-3.1-8B")
    assert isinstance(found, model_facts.Known)
    assert found.facts.num_hidden_layers == 32


def test_the_variants_precision_counts_where_files_say_nothing() -> None:
    architecture = dict(SMALL)
    variant = make_variant("int8", architecture=architecture)
    half = known(make_spec("/nowhere/x"), variant=variant).ledger.budget.weights_bytes
    variant.precision = "bf16"
    assert half < 0.75 * known(make_spec("/nowhere/x"), variant=variant).ledger.budget.weights_bytes


def test_further_arguments_count() -> None:
    plain = known(make_spec())
    adapters = known(make_spec(settings={"extra_args": "--enable-lora --max-loras 4 --max_lora_rank=32"}))
    assert adapters.ledger.budget.adapter_bytes > 0
    offloaded = known(make_spec(settings={"extra_args": "--cpu-offload-gb 4"}))
    assert offloaded.ledger.budget.weights_bytes < plain.ledger.budget.weights_bytes
    draft = '--speculative-config \'{"method": "eagle", "num_speculative_tokens": 3}\''
    assert known(make_spec(settings={"extra_args": draft})).ledger.setup.draft is not None
    for odd in ("--speculative-config '[1'", "--cpu-offload-gb lots", "'open", "--max-loras"):
        assert known(make_spec(settings={"extra_args": odd})).ledger.verdict.fits


def test_a_length_beyond_the_models_own_is_refused_at_any_placement_unless_its_config_is_overridden() -> None:
    longer = {"max_model_len": 400_000, "kv_cache_dtype": "fp8"}
    asked = ledgers.asked(None, make_spec(settings=longer), H100)
    assert "vLLM does not start with it" in asked.refusal
    override = "--hf-overrides.max_position_embeddings 400000"
    assert ledgers.asked(None, make_spec(settings=longer | {"extra_args": override}), H100).refusal == ""


def test_a_folder_that_can_not_be_read_here_may_hold_a_model_of_longer_requests() -> None:
    longer = {"max_model_len": 400_000, "kv_cache_dtype": "fp8"}
    assert ledgers.asked(None, make_spec("/on/the/node/Llama-3.1-8B-Instruct", settings=longer), H100).refusal == ""
    told = known(make_spec("/on/the/node/Llama-3.1-8B-Instruct", settings=longer)).ledger.advice
    assert "length_beyond_model" in {one.code for one in told}


def test_what_no_memory_would_help_is_told_apart_from_what_lacks_memory() -> None:
    longer, larger = make_spec(settings={"max_model_len": 400_000}), make_spec("Llama-3.1-405B-Instruct")
    told = [predictions.shown(known(spec).ledger) for spec in (longer, larger, make_spec())]
    assert [(one["fits"], one["starts"]) for one in told] == [(False, False), (False, True), (True, True)]


def test_the_mean_request_comes_from_usage() -> None:
    assert mean_request.tokens("chat") is None
    UsageMinute.objects.create(
        minute=timezone.now(), tenant="t", key_id="k", deployment="chat", requests=10, prompt_tokens=9000,
        completion_tokens=1000,
    )  # fmt: skip
    assert mean_request.tokens("chat") == 1000


def test_a_placement_reserves_what_the_ledger_says_and_keeps_the_ledger() -> None:
    make_gpu_node()
    make_node("n2", cordoned=True)
    spec = {"kv_cache_memory_bytes": 8 * GIB, "max_model_len": 8192}
    Variant.objects.update_or_create(
        model=Model.objects.create(name="smollm2"), name="bf16", defaults={"path": "Llama-3.1-8B-Instruct"}
    )
    make_deployment("one", settings=spec)
    make_deployment("two", settings=spec)
    settle()
    assert Replica.objects.filter(state="placed").count() == 2
    held = list(Reservation.objects.all())
    assert len({one.accelerator_id for one in held}) == 1
    row = Replica.objects.filter(deployment__name="one").get()
    ledger = selectors.ledger_row(row)
    assert ledger is not None
    assert ledger.claim_bytes == held[0].memory_bytes
    assert ledger.predicted["kv_cache_bytes"] == 8 * GIB
    assert row.assigned[0]["reserved_bytes"] == ledger.claim_bytes
    assert ledger.concurrency_ceiling == ledger.predicted["kv_cache_tokens"] // 2048
    assert any("2048 tokens were taken" in one for one in ledger.assumptions)
    assert ("n2", None, "is cordoned") in passed_over(row)


def test_a_replica_placed_beside_one_that_starts_is_advised_that_it_waits_and_why() -> None:
    make_gpu_node()
    spec = {"kv_cache_memory_bytes": 8 * GIB, "max_model_len": 8192}
    Variant.objects.update_or_create(
        model=Model.objects.create(name="smollm2"), name="bf16", defaults={"path": "Llama-3.1-8B-Instruct"}
    )
    make_deployment("one", settings=spec)
    settle()
    first = Replica.objects.get()
    assert "two_starts" not in str(LedgerRow.objects.get(replica=first.pk).advice)
    (shown,) = deployments.preview_ledgers(make_wish(settings=spec))
    (told,) = [one["sentence"] for one in shown["advice"] if one["code"] == "two_starts_on_one_card"]
    assert f"on 1 of 1 cards of this make, such as replica {first.pk} of one" in told
    make_deployment("two", settings=spec)
    settle()
    second = Replica.objects.get(deployment__name="two")
    (told,) = [
        one["sentence"]
        for one in LedgerRow.objects.get(replica=second.pk).advice
        if one["code"] == "two_starts_on_one_card"
    ]
    assert told.startswith(f"Replica {first.pk} of one was starting, or waited to start, on the same card")
    Replica.objects.update(state="ready")
    (shown,) = deployments.preview_ledgers(make_wish(settings=spec))
    assert "two_starts" not in str(shown["advice"])


def test_a_model_that_does_not_fit_waits_with_the_sum_instead_of_failing_at_its_start() -> None:
    make_gpu_node()
    Variant.objects.update_or_create(
        model=Model.objects.create(name="smollm2"), name="bf16", defaults={"path": "Llama-3.1-70B-Instruct"}
    )
    make_deployment()
    settle()
    row = Replica.objects.get()
    assert row.state == "pending"
    assert "can't run it (131.5" in row.reason_message
    assert {(node, card) for node, card, _reason in passed_over(row)} == {("n1", None), ("n1", 0)}


def test_a_ready_engine_is_compared_and_teaches_the_next_prediction(tmp_path: Path) -> None:
    make_node(cards=3)
    path = make_files(tmp_path / "small")
    Variant.objects.update_or_create(model=Model.objects.create(name="smollm2"), name="bf16", defaults={"path": path})
    make_deployment(replicas=2, settings={"max_model_len": 2048})
    settle()
    first, second = Replica.objects.order_by("created_at", "id")
    reporter = Reporter(cards=3)
    ingest.take_over(reporter.report(make_observed(first.pk, facts=MEASURED_CPU)), time.time())
    row = LedgerRow.objects.get(replica=first.pk)
    assert row.measured_at is not None
    assert row.error["kv_cache_tokens"] == 0
    assert abs(row.error["weights_bytes"]) < 0.02
    assert (row.engine_version, row.family) == ("0.32", "llama")
    assert LedgerRow.objects.get(replica=second.pk).measured == {}
    ingest.take_over(reporter.report(make_observed(first.pk, "warming", seq=2)), time.time())
    again = EngineFacts("0.32.0", GIB, GIB, 1, 128)
    ingest.take_over(reporter.report(make_observed(first.pk, seq=3, facts=again)), time.time())
    assert LedgerRow.objects.get(replica=first.pk).error["kv_cache_tokens"] == 0  # the first start counts
    deployments.scale(actor=ADA, name="chat", replicas=3)
    settle()
    third = LedgerRow.objects.order_by("-id")[0]
    assert third.correction["observations"] == 1
    assert third.correction["weights_ratio"] == 1.0  # what differs by less than the log's last digit teaches nothing
    assert third.correction["sentence"].startswith("Corrected by 1 measured start:")
    assert third.correction["sentence"] in third.assumptions


WINDOWED = {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": 128, "intermediate_size": 256,
    "num_hidden_layers": 12, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32,
    "max_position_embeddings": 8192, "vocab_size": 49152, "sliding_window": 256, "torch_dtype": "bfloat16",
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 2,
}  # fmt: skip


def test_of_a_hybrid_the_blocks_that_its_engine_made_are_the_capacity(tmp_path: Path) -> None:
    """What vLLM 0.32 on CPU told of exactly this model: 1,542,732 tokens, of which it carries less than a half."""
    make_node()
    path = make_files(tmp_path / "windowed", WINDOWED)
    Variant.objects.update_or_create(model=Model.objects.create(name="smollm2"), name="bf16", defaults={"path": path})
    settings = {"max_model_len": 4096, "max_num_batched_tokens": 1024, "kv_cache_memory_bytes": GIB}
    make_deployment(settings=settings)
    settle()
    replica = Replica.objects.get()
    labels = {"num_gpu_blocks": "32768", "block_size": "128", "kv_cache_size_tokens": "1542732"}
    facts = EngineFacts("0.32.0", start_s=20.0, kv_cache_tokens=1_542_732, cache_config=labels)
    ingest.take_over(Reporter().report(make_observed(replica.pk, facts=facts)), time.time())
    row = LedgerRow.objects.get(replica=replica.pk)
    assert row.measured["kv_cache_tokens"] == 1_542_732 and row.error["kv_cache_tokens"] == pytest.approx(0, abs=1e-4)
    assert row.measured["capacity_tokens"] == pytest.approx(32_768 * 128 / 6, rel=0.03)
    (routed,) = documents.build_snapshot(time.time()).content.deployments["chat"].replicas
    assert routed.sequence_kv is not None and routed.sequence_kv.window_tokens == 256
    assert routed.kv_capacity_tokens == row.measured["capacity_tokens"]


def test_engines_that_say_nothing_leave_the_ledger_open() -> None:
    make_node()
    make_deployment()
    settle()
    row = Replica.objects.get()
    ingest.take_over(Reporter().report(make_observed(row.pk)), time.time())
    ledger = selectors.ledger_row(row)
    assert ledger is not None
    assert ledger.measured_at is None
    assert "Nothing is known of this model" not in ledger.why_unknown or ledger.predicted == {}


def test_a_preview_shows_the_ledger_and_its_advice_of_each_make() -> None:
    make_gpu_node()
    make_node("n2", kind="simulated")
    wish = make_wish(settings={"max_model_len": 131072, "gpu_memory_utilization": 0.95, "max_num_seqs": 512})
    Variant.objects.update(path="Llama-3.1-8B-Instruct")
    (found,) = deployments.preview_ledgers(wish)
    assert found["accelerator"] == H100.name
    assert found["predicted"]["fits"]
    assert {"high_utilization", "full_card"} <= {one["code"] for one in found["advice"]}
    assert Replica.objects.count() == LedgerRow.objects.count() == 0


def test_a_deployment_goes_only_where_its_labels_are_and_keeps_them() -> None:
    make_node("n1")
    make_node("n2", labels={"rack": "r2"})
    make_deployment(node_labels={"rack": "r2"})
    deployments.apply(actor=ADA, name="chat", wish=make_wish(replicas=2))  # says nothing of labels
    settle()
    assert set(Replica.objects.values_list("node__name", flat=True)) == {"n2"}
    row = Replica.objects.first()
    assert row is not None
    assert ("n1", None, "has no label rack=r2") in passed_over(row)
    changed = deployments.apply(actor=ADA, name="chat", wish=make_wish(replicas=2, node_labels={}))
    assert changed.changed
    assert changed.deployment.revision is not None
    assert changed.deployment.revision.number == 1


def test_memory_of_an_ended_engine_is_reserved_until_the_card_shows_it_free() -> None:
    make_gpu_node()
    make_deployment(settings={})
    settle()
    row = Replica.objects.get()
    Accelerator.objects.update(observed={"memory_used_bytes": 70 * GIB, "written_at": 0})
    reporter = Reporter(cards=1, kind="gpu")
    ingest.take_over(reporter.report(make_observed(row.pk, "stopped")), time.time())
    held = Reservation.objects.get()
    assert held.releasing_since is not None
    settle()
    assert Replica.objects.filter(state="pending").exists()


def test_old_ledgers_are_swept_but_those_that_teach_stay() -> None:
    key = {"engine_version": "0.32", "accelerator": "H100", "family": "llama"}
    now = timezone.now()
    for number in range(ledgers.LEARNED_FROM + 5):
        LedgerRow.objects.create(replica=f"r{number}", deployment="d", measured_at=now - timedelta(hours=number), **key)
    LedgerRow.objects.create(replica="open", deployment="d")
    living = make_replica(make_deployment())
    LedgerRow.objects.create(replica=living.pk, deployment="d")
    LedgerRow.objects.update(made_at=now - timedelta(days=90))
    history.sweep(now=now, keep_days=30)
    left = set(LedgerRow.objects.values_list("replica", flat=True))
    assert left == {living.pk, *(f"r{number}" for number in range(ledgers.LEARNED_FROM))}


def test_the_ledger_says_what_a_real_engine_logged_on_this_kind_of_machine(tmp_path: Path) -> None:
    log = Path(__file__).parents[1] / "engine_adapters" / "vllm" / "recorded" / "no-guard.txt"
    facts = logs.read_facts(log.read_text(encoding="utf-8").splitlines())
    ledger = known(make_spec(make_files(tmp_path / "small")), CPU).ledger
    lines = {one.name: one for one in measured.lines(ledger, measured.of_engine(facts))}
    assert facts.kv_cache_tokens == 46592
    assert lines["kv_cache_tokens"].error == 0
    assert abs(lines["weights_bytes"].error or 1) < 0.02  # the log has two digits


def test_what_starts_measured_moves_later_predictions_of_their_kind_only() -> None:
    plain = known(make_spec()).ledger
    key = measured.key_of(plain, measured.Measured())
    heavier = {
        "predicted_weights_bytes": 100, "measured_weights_bytes": 110,
        "predicted_kv_bytes": 50 * GIB, "measured_kv_bytes": 48 * GIB,
    }  # fmt: skip
    for number in range(4):
        LedgerRow.objects.create(
            replica=f"r{number}", deployment="d", engine_version=key.engine_version, accelerator=key.accelerator,
            family=key.family, uncorrected=heavier, measured_at=timezone.now(),
        )  # fmt: skip
    corrected = known(make_spec()).ledger
    assert corrected.correction.observations == 4
    assert corrected.budget.weights_bytes == pytest.approx(plain.budget.weights_bytes * 1.08, rel=0.001)
    assert (corrected.available_bytes or 0) < (plain.available_bytes or 0)
    assert "Corrected by 4 measured starts" in corrected.assumptions[-1]
    other = known(make_spec(), H100._replace(engine_version="0.31.0")).ledger
    assert other.correction.observations == 0


def test_the_console_shows_the_ledger_before_a_deployment_is_made() -> None:
    make_gpu_node()
    make_wish()
    Variant.objects.update(path="Llama-3.1-8B-Instruct")
    fields = {
        "engine": "vllm", "name": "chat", "variant": "smollm2/bf16", "pool": "default", "replicas": "1",
        "tensor_parallel": "1", "pipeline_parallel": "1", "settings.max_model_len": "131072",
        "settings.gpu_memory_utilization": "0.95",
    }  # fmt: skip
    shown = make_client("operator").post("/deployments/new/preview/", fields).content.decode()
    assert H100.name in shown
    assert "16.00 GiB for one request of 131072 tokens" in shown
    assert "Stay at or below 0.92" in shown
