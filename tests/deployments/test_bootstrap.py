from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth import authenticate
from django.core.management import call_command

from controlplane.accounts.models import ApiKey, ApiToken, User
from controlplane.deployments.models import Deployment
from controlplane.deployments.services import bootstrap, deployments
from controlplane.journal.services.record import SYSTEM
from controlplane.lib.ids import secret_hash

pytestmark = [pytest.mark.services, pytest.mark.django_db]


def make_model(folder: Path) -> str:
    folder.mkdir()
    (folder / "config.json").write_text('{"hidden_size": 576}')
    (folder / "model.safetensors").write_bytes(b"1234")
    return str(folder)


def test_the_first_start_makes_everything_and_shows_the_secrets(tmp_path: Path) -> None:
    made = bootstrap.bootstrap(model_path=make_model(tmp_path / "m"))
    assert authenticate(username=made.username, password=made.password) == User.objects.get()
    assert ApiToken.objects.get().token_hash == secret_hash(made.api_token or "")
    assert ApiKey.objects.get().key_hash == secret_hash(made.gateway_key or "")
    deployment = Deployment.objects.get()
    assert (made.model, made.deployment) == ("smollm2", "smollm2")
    assert deployment.variant is not None
    assert deployment.variant.size_bytes == 4
    assert deployment.variant.model.architecture == {"hidden_size": 576}
    assert deployment.revision is not None
    assert deployment.revision.spec["settings"]["max_num_seqs"] == 16


def test_the_second_start_changes_and_shows_nothing(tmp_path: Path) -> None:
    path = make_model(tmp_path / "m")
    bootstrap.bootstrap(model_path=path)
    again = bootstrap.bootstrap(model_path=path)
    assert (again.password, again.api_token, again.gateway_key) == (None, None, None)
    assert again.deployment == "smollm2"
    assert (User.objects.count(), ApiKey.objects.count(), Deployment.objects.get().version) == (1, 1, 1)


def test_what_a_person_changed_or_removed_stays_so(tmp_path: Path) -> None:
    path = make_model(tmp_path / "m")
    bootstrap.bootstrap(model_path=path)
    deployments.scale(actor=SYSTEM, name="smollm2", replicas=2)
    bootstrap.bootstrap(model_path=path)
    assert Deployment.objects.get().replicas_wanted == 2
    Deployment.objects.update(revision=None)
    Deployment.objects.all().delete()
    assert bootstrap.bootstrap(model_path=path).deployment is None


def test_a_moved_model_makes_a_new_revision(tmp_path: Path) -> None:
    bootstrap.bootstrap(model_path=make_model(tmp_path / "m"))
    moved = make_model(tmp_path / "n")
    bootstrap.bootstrap(model_path=moved)
    revision = Deployment.objects.get().revision
    assert revision is not None
    assert (revision.number, revision.spec["model_path"]) == (2, moved)


def test_without_a_model_there_is_no_deployment() -> None:
    assert bootstrap.bootstrap(model_path="").deployment is None


def test_the_command_prints_one_json_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWORKS_MODEL_PATH", "")
    monkeypatch.setenv("HEADWORKS_ADMIN_PASSWORD", "a quiet long river")
    out = StringIO()
    call_command("bootstrap", "--json", stdout=out)
    shown = json.loads(out.getvalue())
    assert set(shown) == {"username", "password", "api_token", "gateway_key", "model", "deployment"}
    assert shown["password"] == "a quiet long river"
