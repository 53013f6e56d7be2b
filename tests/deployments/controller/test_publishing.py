from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.accounts.models import ApiKey, Tenant
from controlplane.deployments.controller import documents
from controlplane.deployments.controller.leadership import Leadership, LostError
from controlplane.deployments.controller.publish import Publisher
from controlplane.deployments.models import Deployment, LedgerRow, Replica, Revision
from controlplane.deployments.services import deployments
from controlplane.domain.routing import SNAPSHOT_SCHEMA, RoutedDeployment, RoutingSnapshot
from controlplane.domain.sequence_kv import SequenceKv
from controlplane.fleet.models import Node
from controlplane.lib import keys, valkey, wire
from tests.deployments.controller.running import desired, snapshot
from tests.deployments.making import (
    ADA,
    make_deployment,
    make_external_wish,
    make_node,
    make_replica,
    make_wish,
)

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]

NOW = 1_800_000_000.0


class Publishing:
    def __init__(self, url: str) -> None:
        self.client = valkey.connect(url)
        self.leadership = Leadership()
        self.leadership.try_lead()
        self.publisher = Publisher(self.leadership, self.client)


@pytest.fixture
def made(valkey_server: str) -> Iterator[Publishing]:
    made = Publishing(valkey_server)
    yield made
    made.leadership.release()
    made.client.close()


def make_ready(**fields: object) -> Replica:
    node = fields.pop("node", None) or Node.objects.filter(name="n1").first() or make_node()
    return make_replica(make_deployment(), **{"node": node, "state": "ready", "url": "http://127.0.0.1:9", **fields})


def test_only_what_is_ready_and_goes_on_is_routed() -> None:
    ready = make_ready()
    make_ready(goal="stop")
    make_ready(state="warming")
    routed = documents.build_snapshot(NOW).content.deployments["chat"]
    assert [(one.id, one.url, one.key, one.model, one.node) for one in routed.replicas] == [
        (ready.pk, "http://127.0.0.1:9", ready.key, "chat", "n1")
    ]
    assert not routed.simulated


def test_what_an_engine_said_of_its_cache_and_its_seats_goes_to_the_gateways() -> None:
    make_ready(facts={"kv_cache_tokens": 46_592})
    make_ready(facts={"kv_cache_tokens": "many"})
    Revision.objects.update(spec={**Revision.objects.get().spec, "settings": {"max_num_seqs": 48}})
    routed = documents.build_snapshot(NOW).content.deployments["chat"]
    assert {(one.kv_capacity_tokens, one.max_num_seqs) for one in routed.replicas} == {(46_592, 48), (None, 48)}


def test_each_data_parallel_copy_adds_its_cache_and_its_seats() -> None:
    make_ready(facts={"kv_cache_tokens": 46_592})
    settings = {"max_num_seqs": 48, "data_parallel_size": 2}
    Revision.objects.update(spec={**Revision.objects.get().spec, "settings": settings})
    (routed,) = documents.build_snapshot(NOW).content.deployments["chat"].replicas
    assert (routed.kv_capacity_tokens, routed.max_num_seqs) == (93_184, 96)


def make_ledger(replica: Replica, **predicted: object) -> None:
    LedgerRow.objects.create(replica=replica.pk, deployment="chat", predicted=predicted, concurrency_ceiling=24)


def routed_room() -> tuple[int | None, int | None]:
    (routed,) = documents.build_snapshot(NOW).content.deployments["chat"].replicas
    return routed.kv_capacity_tokens, routed.max_num_seqs


def test_what_neither_settings_nor_engine_say_is_taken_from_the_replica_s_ledger() -> None:
    replica = make_ready()
    make_ledger(replica, max_num_seqs=256, kv_cache_tokens=50_000, capacity_tokens=50_000)
    assert routed_room() == (50_000, 256)
    Replica.objects.update(facts={"kv_cache_tokens": 46_592})
    settings = {"max_num_seqs": 48, "data_parallel_size": 2}
    Revision.objects.update(spec={**Revision.objects.get().spec, "settings": settings})
    assert routed_room() == (2 * 46_592, 2 * 48)
    Replica.objects.update(facts={})
    Revision.objects.update(spec={**Revision.objects.get().spec, "settings": {"data_parallel_size": 2}})
    assert routed_room() == (2 * 50_000, 2 * 256)


def test_the_context_length_is_that_of_the_settings_or_of_the_ledger() -> None:
    make_ledger(make_ready(), max_model_len=8192)
    for settings, length in (({}, 8192), ({"max_model_len": 4096}, 4096), ({"max_model_len": "8k"}, 8192)):
        Revision.objects.update(spec={**Revision.objects.get().spec, "settings": settings})
        (routed,) = documents.build_snapshot(NOW).content.deployments["chat"].replicas
        assert routed.max_model_len == length


def test_a_hybrid_s_predicted_tokens_are_no_capacity_and_the_ledger_s_ceiling_bounds_its_seats() -> None:
    make_ledger(make_ready(), max_num_seqs=256, kv_cache_tokens=50_000, capacity_tokens=None)
    assert routed_room() == (None, 24)
    Revision.objects.update(spec={**Revision.objects.get().spec, "settings": {"data_parallel_size": 2}})
    assert routed_room() == (None, 24)  # 12 of each copy


def test_of_a_hybrid_its_blocks_count_and_not_the_tokens_that_it_logs() -> None:
    kept = {"window_tokens": 1024, "beyond_share": 0.25, "fixed_tokens": 40}
    replica = make_ready(facts={"kv_cache_tokens": 500_000})
    make_ledger(replica, max_num_seqs=256, kv_cache_tokens=500_000, capacity_tokens=90_000, sequence_kv=kept)
    (routed,) = documents.build_snapshot(NOW).content.deployments["chat"].replicas
    assert (routed.kv_capacity_tokens, routed.sequence_kv) == (90_000, SequenceKv(1024, 0.25, 40))
    LedgerRow.objects.update(measured={"capacity_tokens": 100_000})
    assert routed_room() == (100_000, 256), "as many as its engine made"


def test_when_a_replica_is_expected_is_told_where_none_is_ready() -> None:
    deployment = make_deployment()
    for took in (30.0, 90.0, 40.0):
        make_replica(deployment, state="stopped", ended_at=timezone.now(), facts={"start_s": took})
    assert snapshot_of().ready_expected_at is None, "nothing starts"
    node, now = make_node(), timezone.now()
    make_replica(deployment, node=node, state="pending")
    failed = make_replica(deployment, node=node, state="failed")
    assert snapshot_of().ready_expected_at is None, "one has no place yet, one is given up"
    failed.retry_at = now + timedelta(seconds=20)
    failed.save()
    assert snapshot_of().ready_expected_at == pytest.approx(now.timestamp() + 20 + 40)
    make_replica(deployment, node=node, state="starting", process_started_at=now - timedelta(seconds=10))
    assert snapshot_of().ready_expected_at == pytest.approx(now.timestamp() - 10 + 40)
    make_ready()
    assert snapshot_of().ready_expected_at is None, "one is ready"


def snapshot_of(name: str = "chat") -> RoutedDeployment:
    return documents.build_snapshot(timezone.now().timestamp()).content.deployments[name]


def test_the_ledgers_of_replicas_cost_no_queries_of_their_own(django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    make_ledger(make_ready(), max_num_seqs=256, capacity_tokens=50_000)
    make_deployment("other")
    with CaptureQueriesContext(connection) as first:
        documents.build_snapshot(NOW)
    for _ in range(4):
        make_ledger(make_ready(), max_num_seqs=256, capacity_tokens=50_000)
    with django_assert_num_queries(len(first)):
        documents.build_snapshot(NOW)
    assert sum("ledgerrow" in query["sql"] for query in first.captured_queries) == 1


def test_a_deployment_without_replicas_is_known_all_the_same() -> None:
    make_deployment()
    content = documents.build_snapshot(NOW).content
    assert content.models == {"chat": "chat"}
    assert content.deployments["chat"].replicas == ()


def test_a_deployment_that_is_being_removed_is_not_routed() -> None:
    make_deployment()
    deployments.delete(actor=ADA, name="chat")
    assert documents.build_snapshot(NOW).content.models == {}


def test_a_lost_node_is_routed_for_a_while() -> None:
    node = make_node(lost=True, last_report_at=timezone.now())
    make_ready(node=node)
    heard_at = Node.objects.get().last_report_at
    assert heard_at is not None
    soon, late = heard_at.timestamp() + 100, heard_at.timestamp() + 700
    assert documents.build_snapshot(soon).content.deployments["chat"].replicas
    assert not documents.build_snapshot(late).content.deployments["chat"].replicas


def test_an_endpoint_is_routed_with_its_own_address_key_and_model() -> None:
    wish = make_external_wish(external_url="https://models.example/api/v1/", external_key="sk-1")
    deployment = deployments.apply(actor=ADA, name="ext", wish=wish).deployment
    make_replica(deployment, state="ready")
    one = documents.build_snapshot(NOW).content.deployments["ext"].replicas[0]
    assert (one.url, one.key, one.model) == ("https://models.example/api/v1", "sk-1", "llama")


def test_keys_are_there_by_hash_while_they_may_be_used() -> None:
    tenant = Tenant.objects.create(name="shop")
    now = timezone.now()
    good = ApiKey.objects.create(tenant=tenant, name="a", prefix="a", key_hash="1" * 64, deployments=["chat"])
    ApiKey.objects.create(tenant=tenant, name="b", prefix="b", key_hash="2" * 64, revoked_at=now)
    ApiKey.objects.create(tenant=tenant, name="c", prefix="c", key_hash="3" * 64, expires_at=now - timedelta(hours=1))
    known = documents.build_snapshot(NOW).content.keys
    assert list(known) == ["1" * 64]
    assert (known["1" * 64].id, known["1" * 64].tenant, known["1" * 64].deployments) == (
        str(good.pk),
        "shop",
        ("chat",),
    )


def test_the_version_grows_only_with_the_content(made: Publishing) -> None:
    make_node()
    made.publisher.run(NOW)
    first = snapshot(made.client)
    made.publisher.run(NOW + 5)
    again = snapshot(made.client)
    make_deployment()
    made.publisher.run(NOW + 6)
    changed = snapshot(made.client)
    assert first and again and changed
    assert first.schema == SNAPSHOT_SCHEMA
    assert (first.version, again.published_at) == (again.version, NOW + 5)
    assert changed.version > first.version


def test_nothing_is_written_between_times_when_nothing_changed(made: Publishing) -> None:
    make_node()
    made.publisher.run(NOW)
    made.publisher.run(NOW + 1)
    document = desired(made.client)
    assert document is not None
    assert document.published_at == NOW


def test_a_node_s_document_has_all_its_replicas_and_no_others(made: Publishing) -> None:
    ready = make_ready(assigned=[{"uuid": "n1-0", "kind": "gpu", "address": "GPU-1"}], drain_timeout_s=7.0)
    make_ready(ended_at=timezone.now(), state="stopped")
    make_node("n2")
    made.publisher.run(NOW)
    document, other = desired(made.client), desired(made.client, "n2")
    assert document is not None and other is not None
    one = document.replicas[0]
    assert [one.replica_id for one in document.replicas] == [ready.pk]
    assert (one.goal, one.key, one.drain_timeout_s, one.deployment) == ("run", ready.key, 7.0, "chat")
    assert (one.spec.engine, one.spec.model_path, one.spec.build) == ("vllm", "/models/smollm2", "cuda")
    assert other.replicas == ()


def test_a_node_s_version_grows_only_with_its_own_content(made: Publishing) -> None:
    row = make_ready()
    make_node("n2")
    made.publisher.run(NOW)
    Replica.objects.filter(pk=row.pk).update(goal="stop")
    made.publisher.run(NOW + 1)
    made.publisher.run(NOW + 6)
    one, other = desired(made.client), desired(made.client, "n2")
    assert one is not None and other is not None
    assert (one.version, other.version) == (2, 1)
    assert Node.objects.get(name="n1").desired_version == 2


def test_the_snapshot_forgets_a_replica_before_its_node_hears_of_the_stop(made: Publishing) -> None:
    row = make_ready()
    made.publisher.run(NOW)
    with made.client.pubsub() as notices:  # type: ignore[no-untyped-call]
        notices.subscribe(keys.snapshot_changed(), keys.desired_changed("n1"))
        Replica.objects.filter(pk=row.pk).update(goal="stop")
        made.publisher.run(NOW + 1)
        heard: list[str] = []
        while len(heard) < 2:
            notice = notices.get_message(timeout=5)
            assert notice is not None
            if notice["type"] == "message":
                heard.append(notice["channel"].decode())
    assert heard == [keys.snapshot_changed(), keys.desired_changed("n1")]


def test_a_valkey_that_lost_its_data_gets_everything_again(made: Publishing) -> None:
    make_ready()
    made.publisher.run(NOW)
    before = snapshot(made.client)
    made.client.flushall()
    made.publisher.run(NOW + 5)
    after = snapshot(made.client)
    assert before and after
    assert after.deployments == before.deployments
    assert desired(made.client) is not None


def test_who_does_not_lead_publishes_nothing(made: Publishing) -> None:
    make_node()
    made.leadership.release()
    with pytest.raises(LostError):
        made.publisher.run(NOW)
    assert snapshot(made.client) is None
    assert desired(made.client) is None


def test_a_gateway_is_told_which_deployments_are_stopped(made: Publishing) -> None:
    make_deployment("runs")
    make_deployment("rests", desired_state="stopped")
    made.publisher.run(NOW)
    now = snapshot(made.client)
    assert now is not None
    assert {name: one.stopped for name, one in now.deployments.items()} == {"runs": False, "rests": True}


def test_a_late_writer_does_not_overwrite_a_newer_snapshot(made: Publishing) -> None:
    made.publisher.run(NOW)
    first = snapshot(made.client)
    assert first is not None
    late, newer = documents.build_snapshot(NOW), first.version + 10**6
    made.publisher._write(late.encode(newer, NOW), newer, NOW)
    assert made.publisher._write(late.encode(5, NOW), 5, NOW) == newer
    kept = snapshot(made.client)
    assert kept is not None
    assert kept.version == newer


def test_a_database_made_anew_publishes_above_what_valkey_still_has(made: Publishing) -> None:
    made.publisher.run(NOW)
    first = snapshot(made.client)
    assert first is not None
    left = RoutingSnapshot(SNAPSHOT_SCHEMA, first.version + 10**6, NOW)
    made.publisher._write(wire.encode(left), left.version, NOW)
    make_deployment()
    made.publisher.run(NOW + 1)
    now = snapshot(made.client)
    assert now is not None
    assert now.version > left.version


def test_a_publication_that_failed_is_made_up_for_at_once(made: Publishing) -> None:
    make_node()
    made.publisher.run(NOW)
    make_deployment()
    good, made.publisher._client = made.publisher._client, valkey.connect("unix:///nowhere/v.sock")
    with pytest.raises(valkey.ERRORS):
        made.publisher.run(NOW + 1)
    made.publisher._client = good
    made.client.flushall()
    made.publisher.run(NOW + 2)
    now = snapshot(made.client)
    assert now is not None
    assert "chat" in now.models
    assert desired(made.client) is not None


def test_the_document_of_a_forgotten_node_is_removed(made: Publishing) -> None:
    make_node("n1")
    make_node("n2")
    made.publisher.run(NOW)
    Node.objects.filter(name="n1").delete()
    made.publisher.run(NOW + 10)
    assert (desired(made.client, "n1"), desired(made.client, "n2") is not None) == (None, True)
    Node.objects.all().delete()
    made.publisher.run(NOW + 20)
    assert desired(made.client, "n2") is None
    assert not made.client.exists(keys.desired_nodes())


def test_a_document_names_the_machine_that_is_known_under_the_node_s_name(made: Publishing) -> None:
    make_node(machine="m1")
    made.publisher.run(NOW)
    first = desired(made.client)
    Node.objects.update(machine="m2")
    made.publisher.run(NOW + 1)
    second = desired(made.client)
    assert first and second and (first.machine, second.machine) == ("m1", "m2")
    assert second.version > first.version


@pytest.mark.parametrize("odd", [{"spec": {}}, {"spec": {"engine": "vllm"}}])
def test_a_revision_that_this_version_can_t_read_stops_nobody_else(made: Publishing, odd: dict) -> None:
    row, other = make_ready(), make_ready(node=make_node("n2"))
    made.publisher.run(NOW)
    before = desired(made.client, "n1")
    deployment = deployments.apply(actor=ADA, name="other", wish=make_wish()).deployment
    assert deployment.revision
    Revision.objects.filter(pk=deployment.revision.pk).update(**odd)
    broken = make_replica(deployment, node=Node.objects.get(name="n1"), state="ready", url="http://x")
    Replica.objects.filter(pk=other.pk).update(goal="stop")
    made.publisher.run(NOW + 10)
    routed = snapshot(made.client)
    assert routed and [one.id for one in routed.deployments["chat"].replicas] == [row.pk]
    assert "other" not in routed.deployments
    assert desired(made.client, "n1") == before  # as it was: to leave a replica out would end it
    second = desired(made.client, "n2")
    assert second and [one.goal for one in second.replicas] == ["stop"]
    assert broken.pk not in {one.replica_id for one in second.replicas}


def test_an_engine_that_this_version_does_not_know_is_not_routed(made: Publishing) -> None:
    make_ready()
    strange = deployments.apply(actor=ADA, name="strange", wish=make_wish()).deployment
    Deployment.objects.filter(pk=strange.pk).update(engine="torch")
    made.publisher.run(NOW)
    routed = snapshot(made.client)
    assert routed and set(routed.deployments) == {"chat"}


def queued(made: Publishing, node: str) -> int:
    return int(made.client.llen(f"{keys.NAMESPACE}:celery:node.{node}"))


def test_a_node_is_woken_when_its_document_changed_and_not_otherwise(made: Publishing) -> None:
    make_ready()
    make_node("sim", kind="simulated")
    make_node("gone", lost=True)
    made.publisher.run(NOW)
    assert [queued(made, name) for name in ("n1", "sim", "gone")] == [1, 0, 0]
    made.publisher.run(NOW + 1)
    made.publisher.run(NOW + 100)  # everything is written again
    assert queued(made, "n1") == 1
    Replica.objects.update(goal="stop")
    made.publisher.run(NOW + 101)
    assert queued(made, "n1") == 2
