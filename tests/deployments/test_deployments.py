from __future__ import annotations

import pytest

from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, Revision
from controlplane.deployments.services import deployments
from controlplane.domain.errors import RefusedError
from controlplane.fleet.models import Node
from controlplane.journal.models import Event
from tests.deployments.making import (
    ADA,
    make_deployment,
    make_external_wish,
    make_node,
    make_pool,
    make_replica,
    make_wish,
)

pytestmark = [pytest.mark.services, pytest.mark.django_db]


def test_a_wish_makes_a_deployment_and_its_first_revision() -> None:
    applied = deployments.apply(actor=ADA, name="chat", wish=make_wish(replicas=2, settings={"max_num_seqs": 16}))
    assert (applied.changed, applied.created) == (True, True)
    assert applied.deployment.revision is not None
    assert applied.deployment.revision.number == 1
    assert applied.deployment.revision.spec["settings"] == {"max_num_seqs": 16}
    assert applied.deployment.revision.spec["served_model_name"] == "chat"


def test_the_same_wish_again_writes_nothing() -> None:
    wish = make_wish(settings={"max_num_seqs": 16})
    first = deployments.apply(actor=ADA, name="chat", wish=wish)
    before = (Deployment.objects.values().get(), Revision.objects.count(), Event.objects.count())
    second = deployments.apply(actor=ADA, name="chat", wish=wish, expected_version=first.deployment.version)
    assert (second.changed, second.created) == (False, False)
    assert before == (Deployment.objects.values().get(), Revision.objects.count(), Event.objects.count())


def test_the_wish_read_back_changes_nothing() -> None:
    make_deployment(replicas=3, settings={"max_num_seqs": 8})
    assert not deployments.apply(actor=ADA, name="chat", wish=selectors.wish(selectors.deployment("chat"))).changed


def test_only_a_change_of_settings_makes_a_new_revision() -> None:
    deployment = make_deployment()
    scaled = deployments.apply(actor=ADA, name="chat", wish=make_wish(replicas=2)).deployment
    assert scaled.revision_id == deployment.revision_id
    assert scaled.version == 2
    tuned = deployments.apply(actor=ADA, name="chat", wish=make_wish(replicas=2, settings={"max_num_seqs": 8}))
    assert tuned.deployment.revision is not None
    assert tuned.deployment.revision.number == 2
    assert tuned.deployment.version == 3


def test_a_change_tells_who_what_and_the_numbers() -> None:
    make_deployment()
    deployments.apply(actor=ADA, name="chat", wish=make_wish(replicas=4, settings={"max_num_seqs": 8}))
    event = Event.objects.filter(verb="deployment.changed").get()
    assert (event.actor, event.object_kind, event.object_id) == ("ada", "deployment", "chat")
    assert event.numbers["replicas"] == [1, 4]
    assert event.numbers["settings.max_num_seqs"] == [None, 8]
    assert "replicas 1 → 4" in event.message


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"engine": "none"}, "engine"),
        ({"variant": "smollm2/none"}, "variant"),
        ({"variant": ""}, "variant"),
        ({"pool": "none"}, "pool"),
        ({"replicas": -1}, "replicas"),
        ({"replicas": 100_000}, "replicas"),
        ({"desired_state": "up"}, "desired_state"),
        ({"tensor_parallel": 0}, "tensor_parallel"),
        ({"tensor_parallel": 2}, "accelerators_per_replica"),
        ({"settings": {"data_parallel_size": 2}}, "accelerators_per_replica"),
        ({"settings": {"no_such_setting": 1}}, "settings.no_such_setting"),
        ({"settings": {"max_num_seqs": -5}}, "settings.max_num_seqs"),
        ({"external_url": "http://x/v1"}, "external_url"),
    ],
)
def test_what_is_wrong_is_named_by_its_field(changes: dict, field: str) -> None:
    with pytest.raises(RefusedError) as refused:
        deployments.apply(actor=ADA, name="chat", wish=make_wish(**changes))
    assert field in refused.value.fields
    assert Deployment.objects.count() == 0


@pytest.mark.parametrize("name", ["", "Chat", "-chat", "chat-", "a b", "a" * 64, "a.b", "a/b"])
def test_a_name_is_a_dns_label(name: str) -> None:
    with pytest.raises(RefusedError) as refused:
        deployments.apply(actor=ADA, name=name, wish=make_wish())
    assert "name" in refused.value.fields


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "http://u:p@x/v1", "http://x/v1?k=1", "http://x:99999/v1"])
def test_an_external_url_is_checked(url: str) -> None:
    with pytest.raises(RefusedError) as refused:
        deployments.apply(actor=ADA, name="ext", wish=make_external_wish(external_url=url))
    assert "external_url" in refused.value.fields


def test_an_external_key_is_kept_unless_another_is_given() -> None:
    deployments.apply(actor=ADA, name="ext", wish=make_external_wish(external_key="sk-1"))
    assert not deployments.apply(actor=ADA, name="ext", wish=make_external_wish()).changed
    assert Deployment.objects.get().external_key == "sk-1"
    assert deployments.apply(actor=ADA, name="ext", wish=make_external_wish(external_key="sk-2")).changed
    assert not any("sk-" in str(row) for row in Event.objects.values())


def test_an_external_endpoint_does_not_become_an_engine() -> None:
    deployments.apply(actor=ADA, name="ext", wish=make_external_wish())
    with pytest.raises(RefusedError) as refused:
        deployments.apply(actor=ADA, name="ext", wish=make_wish())
    assert "engine" in refused.value.fields


def test_an_old_version_is_a_conflict_that_says_who() -> None:
    deployment = make_deployment()
    deployments.scale(actor=ADA, name="chat", replicas=2)
    with pytest.raises(RefusedError) as refused:
        deployments.scale(actor=ADA, name="chat", replicas=3, expected_version=deployment.version)
    assert (refused.value.kind, refused.value.code) == ("conflict", "changed_meanwhile")
    assert "ada" in refused.value.message


def test_version_zero_means_that_it_must_be_new() -> None:
    deployments.apply(actor=ADA, name="chat", wish=make_wish(), expected_version=0)
    with pytest.raises(RefusedError, match="changed meanwhile"):
        deployments.apply(actor=ADA, name="chat", wish=make_wish(replicas=2), expected_version=0)


def test_a_version_of_what_does_not_exist_is_a_conflict() -> None:
    with pytest.raises(RefusedError) as refused:
        deployments.apply(actor=ADA, name="chat", wish=make_wish(), expected_version=3)
    assert refused.value.kind == "conflict"


def test_stop_and_start_change_the_wish_once() -> None:
    make_deployment()
    deployments.stop(actor=ADA, name="chat")
    stopped = deployments.stop(actor=ADA, name="chat")
    assert (stopped.desired_state, stopped.version) == ("stopped", 2)
    assert deployments.drain(actor=ADA, name="chat").desired_state == "drained"
    assert deployments.start(actor=ADA, name="chat").desired_state == "running"
    verbs = list(Event.objects.order_by("id").values_list("verb", flat=True))
    assert verbs == ["deployment.created", "deployment.stopped", "deployment.drained", "deployment.started"]


def test_a_clone_is_stopped_and_has_the_same_settings() -> None:
    make_deployment(settings={"max_num_seqs": 8}, replicas=2)
    copy = deployments.clone(actor=ADA, name="chat", new_name="chat-2")
    assert copy.desired_state == "stopped"
    assert copy.replicas_wanted == 2
    assert copy.revision is not None
    assert copy.revision.spec["settings"] == {"max_num_seqs": 8}
    assert copy.revision.spec["served_model_name"] == "chat-2"


def test_a_clone_does_not_overwrite() -> None:
    make_deployment()
    with pytest.raises(RefusedError) as refused:
        deployments.clone(actor=ADA, name="chat", new_name="chat")
    assert refused.value.code == "name_taken"


def test_what_is_being_removed_is_not_changed_any_more() -> None:
    make_deployment()
    deployments.delete(actor=ADA, name="chat")
    deployments.delete(actor=ADA, name="chat")
    with pytest.raises(RefusedError) as refused:
        deployments.apply(actor=ADA, name="chat", wish=make_wish(replicas=2))
    assert refused.value.code == "being_deleted"
    assert Event.objects.filter(verb="deployment.deleted").count() == 1


def test_a_frozen_deployment_says_so_in_the_journal() -> None:
    make_deployment()
    deployments.set_frozen(actor=ADA, name="chat", frozen=True)
    deployments.set_frozen(actor=ADA, name="chat", frozen=True)
    assert Event.objects.filter(verb="deployment.frozen").count() == 1


def test_the_preview_is_the_engine_s_argument_list_without_secrets() -> None:
    argv = deployments.preview_command(make_wish(settings={"max_num_seqs": 16}))
    assert "--max-num-seqs" in argv
    assert deployments.preview_command(make_external_wish()) == []


def test_the_preview_shows_what_the_nodes_version_gets_by_itself() -> None:
    make_node(engines={"vllm": "0.32.0"})
    argv = deployments.preview_command(make_wish(settings={"max_num_seqs": 16}))
    assert argv[argv.index("--max-num-queued-reqs") + 1] == str(16 + 2048)
    Node.objects.update(engines={"vllm": "0.11.0"})
    assert "--max-num-queued-reqs" not in deployments.preview_command(make_wish(settings={"max_num_seqs": 16}))


def test_pools_of_a_wish_exist() -> None:
    make_pool("batch")
    assert make_deployment(pool="batch").pool.name == "batch"


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([], "starting"),
        ([{"state": "pending"}], "waiting"),
        ([{"state": "starting"}], "starting"),
        ([{"state": "failed"}], "failed"),
        ([{"state": "ready"}], "degraded"),
        ([{"state": "ready"}, {"state": "ready"}], "ready"),
        ([{"state": "ready"}, {"state": "ready", "goal": "stop"}], "degraded"),
        ([{"state": "ready"}, {"state": "failed"}], "degraded"),
    ],
)
def test_the_status_follows_from_the_replicas(rows: list[dict], status: str) -> None:
    deployment = make_deployment(replicas=2)
    for row in rows:
        make_replica(deployment, **row)
    assert selectors.status(deployment) == status
    assert [d.name for d in selectors.deployments(state=status)] == ["chat"]


def test_a_stopped_deployment_drains_until_its_replicas_are_gone() -> None:
    deployment = make_deployment()
    replica = make_replica(deployment, state="draining", goal="stop")
    deployments.stop(actor=ADA, name="chat")
    assert selectors.status(Deployment.objects.get()) == "draining"
    type(replica).objects.update(ended_at="2026-01-01T00:00:00Z", state="stopped")
    assert selectors.status(Deployment.objects.get()) == "stopped"


def test_replicas_on_a_lost_node_are_unknown_and_not_ready() -> None:
    deployment = make_deployment()
    make_replica(deployment, state="ready", node=make_node(lost=True))
    row = selectors.deployment("chat")
    assert (row.replicas_ready, row.replicas_unknown, selectors.status(row)) == (0, 1, "degraded")  # type: ignore[attr-defined]


def test_a_list_costs_one_query(django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    for name in ("a", "b", "c"):
        make_replica(make_deployment(name))
    with django_assert_num_queries(1):
        rows = selectors.deployments()
        shown = [(d.name, selectors.status(d), str(d.variant), d.pool.name) for d in rows]
    assert len(shown) == 3
