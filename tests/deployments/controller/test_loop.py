from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from controlplane.deployments import selectors
from controlplane.deployments.models import Replica
from controlplane.deployments.services import deployments
from controlplane.embedded import valkey as server
from controlplane.fleet.models import Accelerator, Node, Reservation
from controlplane.journal.models import Event
from controlplane.lib import keys, valkey
from tests.deployments.controller.reporting import Reporter
from tests.deployments.controller.running import desired, eventually, running, say, snapshot
from tests.deployments.making import ADA, make_deployment, make_node

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]

GIB = 2**30
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def client(valkey_server: str) -> Iterator[redis.Redis]:
    client = valkey.connect(valkey_server)
    yield client
    client.close()


def end_sessions(condition: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            f" WHERE datname = current_database() AND pid <> pg_backend_pid() AND {condition}"
        )


def serve(client: redis.Redis, reporter: Reporter) -> bool:
    """The node obeys its newest document once; returns whether the gateway would reach the deployment."""
    document = desired(client, reporter.node)
    say(client, reporter.obey(document) if document else reporter.report())
    current = snapshot(client)
    return bool(current and "chat" in current.deployments and current.deployments["chat"].replicas)


def test_memory_that_is_back_goes_to_who_waits_for_it(client: redis.Redis) -> None:
    node = make_node(cards=1, kind="gpu")
    make_deployment()
    ended = timezone.now() - timedelta(seconds=20)
    reading = {"memory_used_bytes": 60 * GIB, "written_at": ended.timestamp() + 10}
    Accelerator.objects.filter(node=node).update(memory_total_bytes=80 * GIB, observed=reading)
    Reservation.objects.create(accelerator=Accelerator.objects.get(), owner_id="before", releasing_since=ended)
    with running():
        eventually(lambda: Replica.objects.filter(reason_code="no_room").exists())
        Accelerator.objects.update(observed={**reading, "memory_used_bytes": 0})
        eventually(lambda: Replica.objects.filter(state="placed").exists())
    assert Reservation.objects.get().owner_id == Replica.objects.get().pk


def test_from_a_wish_to_a_routed_replica_and_back(client: redis.Redis) -> None:
    make_deployment()
    reporter = Reporter()
    with running():
        eventually(lambda: serve(client, reporter))
        row = Replica.objects.get(ended_at=None)
        assert (row.state, row.node_id) == ("ready", Node.objects.get().pk)
        deployments.stop(actor=ADA, name="chat")
        eventually(lambda: not serve(client, reporter))
        eventually(lambda: serve(client, reporter) or not Replica.objects.filter(ended_at=None).exists())
        document = eventually(lambda: (d := desired(client)) and not d.replicas and d)
        assert document


def test_of_two_controllers_one_leads_and_the_other_takes_over(client: redis.Redis) -> None:
    with running() as first, running() as second:
        eventually(lambda: first.leads or second.leads)
        assert [first.leads, second.leads].count(True) == 1
        assert eventually(lambda: snapshot(client))
        led = Event.objects.filter(verb="controller.leads").count()
        end_sessions("application_name = 'headworks-controller'")
        eventually(lambda: Event.objects.filter(verb="controller.leads").count() > led)
        eventually(lambda: [first.leads, second.leads].count(True) == 1)
        before = snapshot(client)
        make_deployment()
        after = eventually(lambda: (s := snapshot(client)) and "chat" in s.models and s)
        assert before and after
        assert after.version > before.version


def test_a_leader_that_ends_hands_over(client: redis.Redis) -> None:
    with running() as first:
        eventually(lambda: first.leads)
        with running() as second:
            assert not second.leads
    with running() as third:
        eventually(lambda: third.leads)


def test_a_valkey_that_lost_everything_is_whole_again_by_itself(client: redis.Redis) -> None:
    make_deployment()
    reporter = Reporter()
    with running():
        eventually(lambda: serve(client, reporter))
        client.flushall()
        eventually(lambda: desired(client) and snapshot(client))
        document = desired(client)
        assert document is not None
        assert len(document.replicas) == 1
        assert not Node.objects.get().lost


def test_every_database_session_may_end_at_once(client: redis.Redis) -> None:
    reporter = Reporter()
    with running():
        eventually(lambda: snapshot(client))
        end_sessions("true")
        make_deployment()
        eventually(lambda: serve(client, reporter))


def test_valkey_may_be_killed_and_come_back_empty(
    tmp_path_factory: pytest.TempPathFactory, client: redis.Redis
) -> None:
    folder = tmp_path_factory.mktemp("v")
    address = server.url(folder / "v.sock")

    def start() -> subprocess.Popen[bytes]:
        (folder / "v.sock").unlink(missing_ok=True)
        command = server.server_command(folder, folder / "v.sock", durable=False)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually((folder / "v.sock").exists)
        return process

    process = start()
    try:
        with running(address), valkey.connect(address) as own:
            eventually(lambda: snapshot(own))
            process.kill()
            process.wait()
            make_deployment()
            process = start()
            eventually(lambda: (s := _try(own)) and "chat" in s.models)
    finally:
        process.kill()
        process.wait()


def _try(client: redis.Redis):  # type: ignore[no-untyped-def]
    try:
        return snapshot(client)
    except valkey.ERRORS:
        return None


def test_a_report_that_can_t_be_read_stops_nobody(client: redis.Redis) -> None:
    with running():
        eventually(lambda: snapshot(client))
        client.xadd(keys.observations(), {"report": b"{"})
        client.xadd(keys.observations(), {"other": b"{}"})
        say(client, Reporter().report())
        eventually(lambda: Node.objects.exists())


def test_the_health_check_tells_whether_somebody_leads(client: redis.Redis) -> None:
    with pytest.raises(CommandError, match="No controller leads"):
        call_command("controller", "--check")
    with running():
        eventually(lambda: snapshot(client))
        call_command("controller", "--check")


def test_a_report_that_the_tables_can_t_hold_stops_nobody(client: redis.Redis) -> None:
    with running():
        eventually(lambda: snapshot(client))
        say(client, Reporter(node="x" * 100).report())
        say(client, Reporter().report())
        eventually(lambda: Node.objects.exists())


@contextmanager
def command() -> Iterator[subprocess.Popen[bytes]]:
    """`manage.py controller` as a process of its own on the test's database."""
    database = str(connection.settings_dict["NAME"])
    address = os.environ["DATABASE_URL"].replace("///postgres?", f"///{database}?")
    process = subprocess.Popen(
        [sys.executable, "manage.py", "controller"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": address},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_command_ends_cleanly_on_sigterm(client: redis.Redis) -> None:
    with command() as process:
        eventually(lambda: snapshot(client), 40)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert not selectors.is_led()


def test_after_a_leader_is_killed_another_one_leads(client: redis.Redis) -> None:
    with command() as process:
        eventually(selectors.is_led, 40)
        with running() as second:
            assert not second.leads
            process.kill()
            eventually(lambda: second.leads)
