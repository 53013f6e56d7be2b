from __future__ import annotations

import json
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from django.apps import apps
from django.contrib.auth import authenticate
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone

from controlplane.accounts.models import ApiKey, ApiToken, User
from controlplane.accounts.services import keys, tenants, tokens, users
from controlplane.backup import dump, load, tables
from controlplane.deployments.controller.carry_out import Reconciler
from controlplane.deployments.models import Deployment, Replica, Revision
from controlplane.deployments.services import bootstrap, deployments, steps
from controlplane.domain.errors import RefusedError
from controlplane.fleet.models import Node, Reservation
from controlplane.fleet.services import reservations
from controlplane.journal.models import Event
from controlplane.lib.ids import secret_hash
from controlplane.telemetry.models import RollupMinute
from controlplane.telemetry.services import partitions
from controlplane.traffic.models import UsageMinute
from tests.deployments.making import ADA, make_deployment, make_external_wish, make_node, make_replica, make_wish

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]


def make_installation() -> None:
    users.create(actor=ADA, username="ada", password="a quiet long river", role="administrator")
    tokens.create(actor=ADA, username="ada", name="t")
    tenants.apply(actor=ADA, name="shop", description="Größe 尺")
    make_node()
    make_replica(make_deployment(settings={"max_num_seqs": 4}), node=Node.objects.get(), state="ready")
    keys.create(actor=ADA, tenant="shop", name="k", deployments=["chat"])
    deployments.apply(actor=ADA, name="chat", wish=make_wish(replicas=3, settings={"max_num_seqs": 8}))
    deployments.apply(actor=ADA, name="ext", wish=make_external_wish(external_key="sk-secret"))
    UsageMinute.objects.create(minute=timezone.now(), tenant="shop", key_id="1", deployment="chat", requests=2**40)


def empty() -> None:
    names = [apps.get_model(name)._meta.db_table for name in (*tables.KEPT, *tables.TELEMETRY, *tables.LEFT_OUT)]
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(names)} RESTART IDENTITY CASCADE")


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def body(path: Path) -> list[dict]:
    return [one for one in lines(path) if "model" in one]


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    make_installation()
    first, second = tmp_path / "first", tmp_path / "second"
    counts = dump.dump(first, secrets=True, telemetry=False)
    empty()
    restored = load.load(first)
    assert restored == {model: count for model, count in counts.items() if count}
    Event.objects.filter(verb="system.restored").delete()
    Node.objects.update(desired_version=0)
    dump.dump(second, secrets=True, telemetry=False)
    assert body(first) == body(second)
    assert authenticate(username="ada", password="a quiet long river") is not None
    chat = Deployment.objects.get(name="chat")
    assert chat.revision is not None
    assert (chat.revision.number, Deployment.objects.get(name="ext").external_key) == (2, "sk-secret")


def test_the_journal_tells_of_backup_and_restore(tmp_path: Path) -> None:
    make_installation()
    dump.dump(tmp_path / "b", secrets=False, telemetry=False)
    event = Event.objects.get(verb="system.backed_up")
    assert (event.message, event.numbers["accounts.User"]) == ("A backup without secrets was written.", 1)
    empty()
    load.load(tmp_path / "b")
    assert Event.objects.filter(verb="system.restored").exists()


def test_running_replicas_are_not_part_of_it(tmp_path: Path) -> None:
    make_installation()
    dump.dump(tmp_path / "b", secrets=True, telemetry=False)
    empty()
    load.load(tmp_path / "b")
    assert Replica.objects.count() == 0


def test_after_a_restore_new_rows_get_new_numbers(tmp_path: Path) -> None:
    make_installation()
    dump.dump(tmp_path / "b", secrets=True, telemetry=False)
    empty()
    load.load(tmp_path / "b")
    deployments.apply(actor=ADA, name="chat", wish=make_wish(settings={"max_num_seqs": 2}))
    assert Revision.objects.filter(deployment__name="chat").count() == 3


def test_what_is_published_afterwards_is_newer(tmp_path: Path) -> None:
    make_installation()
    Node.objects.update(desired_version=7)
    dump.dump(tmp_path / "b", secrets=True, telemetry=False)
    empty()
    load.load(tmp_path / "b")
    node = Node.objects.get()
    assert (node.desired_version, node.desired_hash) == (7 + load.VERSIONS_AHEAD, "")
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('headworks_snapshot_version')")
        assert cursor.fetchone()[0] > load.VERSIONS_AHEAD


def test_without_secrets_there_are_none_in_the_file(tmp_path: Path) -> None:
    make_installation()
    path = tmp_path / "b"
    dump.dump(path, secrets=False, telemetry=False)
    text = path.read_text()
    for secret in (
        "sk-secret",
        User.objects.get().password,
        ApiToken.objects.get().token_hash,
        ApiKey.objects.get().key_hash,
        Replica.objects.get().key,
    ):
        assert secret not in text
    empty()
    load.load(path)
    assert not User.objects.get().has_usable_password()
    assert (ApiToken.objects.count(), ApiKey.objects.count()) == (0, 0)


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    dump.dump(tmp_path / "b", secrets=True, telemetry=False)
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("precious")
    with pytest.raises(RefusedError, match="exists already"):
        dump.dump(tmp_path / "b", secrets=True, telemetry=False)
    assert (tmp_path / "b").read_text() == "precious"


def test_roll_ups_come_along_when_asked_for(tmp_path: Path) -> None:
    minute = datetime(2020, 5, 1, 12, 0, tzinfo=UTC)
    partitions.ensure(first=minute.date(), last=minute.date())
    RollupMinute.objects.create(minute=minute, subject="deployment:chat", covered_s=60, counters={"requests": 3})
    dump.dump(tmp_path / "without", secrets=True, telemetry=False)
    dump.dump(tmp_path / "with", secrets=True, telemetry=True)
    assert body(tmp_path / "without") == []
    empty()
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE telemetry_rollup_minute_20200501")
    load.load(tmp_path / "with")
    assert RollupMinute.objects.get().counters == {"requests": 3}


def test_a_database_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    make_installation()
    dump.dump(tmp_path / "b", secrets=True, telemetry=False)
    with pytest.raises(RefusedError) as refused:
        load.load(tmp_path / "b")
    assert refused.value.code == "database_not_empty"
    assert User.objects.count() == 1


def test_an_older_database_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "b"
    dump.dump(path, secrets=True, telemetry=False)
    rewrite(path, migrations=[*lines(path)[0]["migrations"], ["deployments", "0099_later"]])
    with pytest.raises(RefusedError, match=r"deployments\.0099_later"):
        load.load(path)


def test_an_older_backup_gets_defaults_for_what_is_new(tmp_path: Path) -> None:
    make_installation()
    path = tmp_path / "b"
    dump.dump(path, secrets=True, telemetry=False)
    rewrite(path, drop=("fleet.Node", "draining"))
    empty()
    load.load(path)
    assert Node.objects.get().draining is False


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b"
    dump.dump(path, secrets=True, telemetry=False)
    rewrite(path, version=tables.VERSION + 1)
    with pytest.raises(RefusedError) as refused:
        load.load(path)
    assert refused.value.code == "backup_too_new"


@pytest.mark.parametrize("damage", ["cut", "changed", "other", "empty", "absent"])
def test_a_damaged_file_restores_nothing(tmp_path: Path, damage: str) -> None:
    make_installation()
    path = tmp_path / "b"
    dump.dump(path, secrets=True, telemetry=False)
    empty()
    whole = path.read_bytes()
    content = {
        "cut": whole[: len(whole) // 2],
        "changed": whole.replace(b"shop", b"shot"),
        "other": b'{"some": "json"}\n',
        "empty": b"",
        "absent": whole,
    }[damage]
    path.write_bytes(content)
    if damage == "absent":
        path.unlink()
    with pytest.raises(RefusedError):
        load.load(path)
    assert not User.objects.exists()


def rewrite(
    path: Path, *, drop: tuple[str, str] = ("", ""), change: tuple[str, dict] = ("", {}), **head: object
) -> None:
    """Changes a backup as another version would have written it."""
    import hashlib

    old = lines(path)
    old[0] |= head
    for one in old:
        if one.get("model") == drop[0]:
            del one["row"][drop[1]]
        if one.get("model") == change[0]:
            one["row"] |= change[1]
    text = "".join(json.dumps(one) + "\n" for one in old[:-1])
    end = {**old[-1], "sha256": hashlib.sha256(text.encode()).hexdigest()}
    path.write_text(text + json.dumps(end) + "\n")


def test_every_model_is_kept_or_left_out_with_a_reason() -> None:
    ours = {
        f"{model._meta.app_label}.{model.__name__}"
        for model in apps.get_models()
        if model.__module__.startswith("controlplane.")
    }
    assert ours == {*tables.KEPT, *tables.TELEMETRY, *tables.LEFT_OUT}


def test_the_commands_speak_json_and_refuse_in_a_sentence(tmp_path: Path) -> None:
    make_installation()
    path, out = tmp_path / "b", StringIO()
    call_command("backup", str(path), "--with-secrets", "--json", stdout=out)
    assert json.loads(out.getvalue())["rows"]["deployments.Deployment"] == 2
    with pytest.raises(CommandError, match="The database is not empty"):
        call_command("restore", str(path))
    empty()
    out = StringIO()
    call_command("restore", str(path), "--json", stdout=out)
    assert json.loads(out.getvalue())["rows"]["accounts.User"] == 1


# -- in place of what is there -----------------------------------------------------------------------------------------


def make_bootstrapped(tmp_path: Path) -> bootstrap.FirstSecrets:
    """What `make up` leaves on a new machine, with an engine that runs and a person who is logged in."""
    model = tmp_path / "model"
    model.mkdir()
    made = bootstrap.bootstrap(model_path=str(model))
    node = make_node("fresh")
    row = make_replica(Deployment.objects.get(name="smollm2"), node=node, state="ready")
    steps.write(replica_id=row.pk, from_state="pending", to_state="placed", code="placed", message="Placed.")
    with transaction.atomic():
        reservations.take(node="fresh", uuids=["fresh-0"], owner_kind="replica", owner_id=row.pk)
    Session.objects.create(session_key="s" * 32, session_data="x", expire_date=timezone.now())
    User.objects.get().groups.add(Group.objects.create(name="g"))
    return made


def test_a_backup_takes_the_place_of_what_bootstrap_made(tmp_path: Path) -> None:
    make_installation()
    first, second = tmp_path / "first", tmp_path / "second"
    dump.dump(first, secrets=True, telemetry=False)
    empty()
    made = make_bootstrapped(tmp_path)
    load.load(first, replace=True)
    Event.objects.filter(verb="system.restored").delete()
    Node.objects.update(desired_version=0)
    dump.dump(second, secrets=True, telemetry=False)
    assert body(first) == body(second)
    assert authenticate(username="ada", password="a quiet long river") is not None
    assert authenticate(username=made.username, password=made.password) is None
    assert not ApiToken.objects.filter(token_hash=secret_hash(made.api_token or "")).exists()
    assert [Replica.objects.count(), Reservation.objects.count(), Session.objects.count()] == [0, 0, 0]


def test_after_it_bootstrap_makes_nothing_new_and_the_controller_goes_on(tmp_path: Path) -> None:
    make_installation()
    dump.dump(tmp_path / "b", secrets=True, telemetry=False)
    empty()
    make_bootstrapped(tmp_path)
    load.load(tmp_path / "b", replace=True)
    again = bootstrap.bootstrap(model_path="")
    assert (again.password, again.api_token, again.gateway_key) == (None, None, None)
    reconciler = Reconciler()
    for _ in range(5):
        reconciler.run(timezone.now().timestamp())
    assert Replica.objects.filter(deployment__name="chat", state="placed", node__name="n1").count() == 2


def test_roll_ups_stay_unless_the_backup_has_its_own(tmp_path: Path) -> None:
    minute = datetime(2020, 5, 1, 12, 0, tzinfo=UTC)
    partitions.ensure(first=minute.date(), last=minute.date())
    RollupMinute.objects.create(minute=minute, subject="deployment:a", covered_s=60, counters={})
    dump.dump(tmp_path / "without", secrets=True, telemetry=False)
    dump.dump(tmp_path / "with", secrets=True, telemetry=True)
    RollupMinute.objects.create(minute=minute, subject="deployment:b", covered_s=60, counters={})
    load.load(tmp_path / "without", replace=True)
    assert RollupMinute.objects.count() == 2
    load.load(tmp_path / "with", replace=True)
    assert [one.subject for one in RollupMinute.objects.all()] == ["deployment:a"]


@pytest.mark.parametrize("damage", ["cut", "row"])
def test_a_replacement_that_fails_changes_nothing(tmp_path: Path, damage: str) -> None:
    make_installation()
    path = tmp_path / "b"
    dump.dump(path, secrets=True, telemetry=False)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        rewrite(path, change=("deployments.Deployment", {"pool_id": 9999}))  # found out only at the very end
    before = (User.objects.get().pk, Deployment.objects.count(), Replica.objects.count(), Event.objects.count())
    with pytest.raises(RefusedError) as refused:
        load.load(path, replace=True)
    assert refused.value.code == {"cut": "backup_damaged", "row": "backup_does_not_fit"}[damage]
    assert before == (
        User.objects.get().pk, Deployment.objects.count(), Replica.objects.count(), Event.objects.count(),
    )  # fmt: skip


def test_the_command_asks_before_it_replaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_installation()
    path = tmp_path / "b"
    dump.dump(path, secrets=True, telemetry=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    answers = ["", "yes", "no", "replace"]
    monkeypatch.setattr("builtins.input", lambda text: answers.pop(0))
    for _ in range(3):
        err = StringIO()
        with pytest.raises(CommandError, match="Nothing was changed"):
            call_command("restore", str(path), "--replace", stderr=err)
        assert "1 of accounts.User" in err.getvalue() and "2 of deployments.Deployment" in err.getvalue()
    assert Replica.objects.exists()
    call_command("restore", str(path), "--replace", stderr=StringIO(), stdout=StringIO())
    assert not Replica.objects.exists()


def test_where_nobody_can_be_asked_the_command_wants_a_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_installation()
    path = tmp_path / "b"
    dump.dump(path, secrets=True, telemetry=False)
    monkeypatch.setattr("sys.stdin", StringIO())
    with pytest.raises(CommandError, match="give --yes as well"):
        call_command("restore", str(path), "--replace")
    out = StringIO()
    call_command("restore", str(path), "--replace", "--yes", "--json", stdout=out)
    assert json.loads(out.getvalue())["rows"]["deployments.Deployment"] == 2


def test_tables_in_use_are_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_installation()
    dump.dump(tmp_path / "b", secrets=True, telemetry=False)
    monkeypatch.setattr(load, "LOCK_TIMEOUT_MS", 100)
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("LOCK TABLE deployments_deployment IN ACCESS SHARE MODE")
            with pytest.raises(RefusedError) as refused:
                load.load(tmp_path / "b", replace=True)
            cursor.execute("ROLLBACK")
    finally:
        other.close()
    assert refused.value.code == "tables_in_use"
    load.load(tmp_path / "b", replace=True)
