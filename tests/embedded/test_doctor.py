from __future__ import annotations

import http.server
import json
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.embedded import doctor, facts, state
from controlplane.embedded.layout import ROOT, Layout

SECRETS = {
    "password": "Pog-the-password",
    "api_token": "hwt-the-api-token-1234",
    "gateway_key": "hw-the-gateway-key-1234",
}
REPLICA_KEY = "hwr-the-replica-key-1234"
SIGNING_KEY = "the-signing-key"


def make_installation(folder: Path) -> Layout:
    layout = Layout(ROOT, folder / "home", folder / "cache")
    layout.make_home()
    layout.first_run.write_text(json.dumps({"username": "admin", **SECRETS}))
    layout.secret_key.write_text(SIGNING_KEY + "\n")
    replica = layout.home / "node" / "n1" / "replicas" / "r1"
    replica.mkdir(parents=True)
    record = {
        "desired": {"replica_id": "r1", "deployment": "smollm2", "key": REPLICA_KEY},
        "state": "failed",
        "transitions": [{"reason": {"code": "out_of_memory", "message": "The engine ran out of memory."}}],
        "command": ["python", "-m", "vllm"],
    }
    (replica / "record.json").write_text(json.dumps(record))
    (replica / "engine.log").write_text(f"started with {REPLICA_KEY}\nready\n")
    everything = " ".join([*SECRETS.values(), REPLICA_KEY, SIGNING_KEY])
    (layout.logs / "gateway.log").write_text(f"a careless line: {everything}\nan honest line\n")
    return layout


def read_bundle(layout: Layout) -> dict[str, str]:
    (path,) = layout.home.glob("doctor-*.tar.gz")
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as bundle:
        out = {}
        for member in bundle.getmembers():
            file = bundle.extractfile(member)
            assert file is not None
            out[member.name.split("/", 1)[1]] = file.read().decode()
        return out


def test_the_bundle_tells_what_happened_and_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWORKS_ADMIN_PASSWORD", "from-the-environment")
    monkeypatch.setenv("DATABASE_URL", "postgresql://hw:db-password-1@db.example/hw")
    layout = make_installation(tmp_path)
    doctor.doctor(layout)
    bundle = read_bundle(layout)
    printed = capsys.readouterr().out
    everything = printed + "".join(bundle.values())
    for secret in (*SECRETS.values(), REPLICA_KEY, SIGNING_KEY, "from-the-environment", "db-password-1"):
        assert secret not in everything
    assert "an honest line" in bundle["logs/gateway.log"]
    assert "ready" in bundle["logs/engines/r1.log"]
    assert json.loads(bundle["replicas/r1.json"])["desired"]["deployment"] == "smollm2"
    assert "db.example" in bundle["settings.txt"]
    assert "Django-5.2" in bundle["versions.txt"] or "django-5.2" in bundle["versions.txt"]
    assert "MemTotal" in bundle["machine.txt"]


def test_the_summary_says_what_looks_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = make_installation(tmp_path)
    doctor.doctor(layout)
    printed = capsys.readouterr().out
    assert "No launcher runs here" in printed
    assert "Replica r1 of smollm2 has failed: The engine ran out of memory." in printed
    assert "engine's environment" in printed or "Nothing" not in printed


def test_a_gateway_process_that_was_started_again_is_named(tmp_path: Path) -> None:
    layout = make_installation(tmp_path)
    line = "WARNING controlplane.gateway.parent: gateway process 1 (ab12) has ended with status -9; starting it again"
    (layout.logs / "gateway.log").write_text(f"{line}\n{line}\n")
    (sentence,) = facts.restarts(layout)
    assert sentence.startswith("gateway process 1 had to be started again 2 times lately")
    assert "gateway.log" in sentence


@pytest.fixture
def console() -> Iterator[str]:
    """The address of a server that answers everything, as a console does /healthz."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_the_addresses_are_those_of_the_launcher_that_runs(
    tmp_path: Path, console: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWORKS_CONSOLE_PORT", "1")
    monkeypatch.setenv("HEADWORKS_GATEWAY_PORT", "2")
    layout = make_installation(tmp_path)
    assert len(list(facts.silent_ports(layout))) == 2
    state.write(layout.state, state.READY, console, console)
    assert list(facts.silent_ports(layout)) == []
    assert f"{console}/healthz: 404" in facts.ports(layout)
