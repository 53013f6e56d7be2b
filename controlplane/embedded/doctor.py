"""`make doctor`: a support bundle without secrets, and a summary of what looks wrong."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from collections.abc import Iterator

from controlplane import env
from controlplane.embedded import engines, facts, logs, masking, say, settings, state
from controlplane.embedded.layout import Layout

LOG_LINES = 2000
KEPT_BUNDLES = 5


def doctor(layout: Layout) -> int:
    """Writes the bundle, prints where it is and what looks wrong."""
    secrets = masking.known_secrets(layout.home, os.environ)
    wrong = list(what_looks_wrong(layout))
    for old in sorted(layout.home.glob("doctor-*.tar.gz"))[: 1 - KEPT_BUNDLES]:
        old.unlink(missing_ok=True)
    name = f"doctor-{time.strftime('%Y%m%d-%H%M%S')}"
    path = layout.home / f"{name}.tar.gz"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as bundle:
        for inner, text in documents(layout, wrong):
            data = masking.mask(text, secrets).encode()
            member = tarfile.TarInfo(f"{name}/{inner}")
            member.size, member.mtime, member.mode = len(data), int(time.time()), 0o600
            bundle.addfile(member, io.BytesIO(data))
    say.line(f"Support bundle without secrets: {path}")
    say.line("Nothing looks wrong." if not wrong else "What looks wrong:")
    for sentence in wrong:
        say.line(f"  - {masking.mask(sentence, secrets)}")
    return 0


def documents(layout: Layout, wrong: list[str]) -> Iterator[tuple[str, str]]:
    """Yields (name, text) of everything in the bundle, not masked yet."""
    yield "summary.txt", "\n".join(wrong or ["Nothing looks wrong."]) + "\n"
    yield "versions.txt", facts.versions(layout)
    yield "settings.txt", facts.settings(layout, os.environ)
    yield "processes.txt", facts.processes(layout)
    yield "ports.txt", facts.ports(layout)
    yield "machine.txt", facts.machine(layout)
    for index, record in enumerate(engines.records(layout.home)):
        replica = str((record.get("desired") or {}).get("replica_id") or index)
        yield f"replicas/{replica}.json", json.dumps(masking.without_secrets(record), indent=1) + "\n"
    for path in sorted(layout.logs.glob("*.log*")):
        yield f"logs/{path.name}", "\n".join(logs.tail(path, LOG_LINES, 400_000)) + "\n"
    for path in sorted((layout.home / "node").glob("*/replicas/*/engine.log")):
        yield f"logs/engines/{path.parent.name}.log", "\n".join(logs.tail(path, LOG_LINES, 400_000)) + "\n"


def what_looks_wrong(layout: Layout) -> Iterator[str]:
    """Yields a sentence for everything that a person should look at."""
    launcher = state.read(layout.state)
    if launcher is None:
        yield "No launcher runs here; make up starts everything."
        for engine in engines.living(layout.home):
            yield f"The engine of {engine.deployment} ({engine.process.pid}) runs without a launcher."
    else:
        if launcher.phase != state.READY:
            yield f"The launcher is {launcher.phase}."
        yield from facts.dead_children(layout)
        yield from facts.restarts(layout)
        yield from facts.silent_ports(layout)
    yield from facts.replica_problems(layout)
    yield from facts.tight_places(layout)
    yield from facts.unfinished_environments(layout)
    try:
        settings.read_settings(layout)
    except env.SettingError as error:
        yield str(error)
