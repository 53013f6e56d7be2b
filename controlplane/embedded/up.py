"""`make up`: starts everything, waits until it is ready, and keeps it running."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from controlplane import env
from controlplane.embedded import (
    database,
    engines,
    logs,
    preflight,
    proc,
    say,
    servers,
    services,
    settings,
    stack,
    state,
    waiting,
)
from controlplane.embedded.engines import Engine
from controlplane.embedded.layout import Layout
from controlplane.embedded.prepare import Prepared
from controlplane.embedded.problems import LauncherError, in_words
from controlplane.embedded.settings import LaunchSettings
from controlplane.embedded.stack import Stack, Stopped

ENDING_LIMIT_S = 150.0
ALREADY_RUNNING = 3
# greedy, so that the small model answers the same to everybody
TRY_IT = {"temperature": 0, "messages": [{"role": "user", "content": "What is the capital of France?"}]}


def run(layout: Layout, prepared: Prepared, *, detached: bool, demo: bool) -> int:
    """Runs the stack until somebody ends it. Returns the exit status of the launcher."""
    chosen = settings.read_settings(layout)
    lock = state.take_lock(layout)
    if lock is None:
        say_already_running(layout, wait=False)
        return ALREADY_RUNNING if detached else 0
    running = Stack(layout)
    status = 0
    spared: list[Engine] = []
    before = engines.living(layout.home)
    try:
        state.write(layout.state, state.STARTING, chosen.console_url, chosen.gateway_url)
        first_run, problem = start_everything(running, layout, chosen, prepared, demo=demo)
        say_ready(layout, first_run, problem, detached=detached)
        state.write(layout.state, state.READY, chosen.console_url, chosen.gateway_url, problem)
        if demo:
            say.step("The simulated cluster fills with traffic within a minute; nodes sim-01 … in the console")
        if not detached:
            running.follow()
        running.run()
    except Stopped:
        say.step("Stopping (once more Ctrl-C ends engines at once)")
    except (LauncherError, env.SettingError, OSError) as error:
        say.problem(in_words(error))
        status, spared = 1, before
    with contextlib.suppress(OSError):  # a full disk hinders nobody from ending
        state.write(layout.state, state.STOPPING, chosen.console_url, chosen.gateway_url)
    left = running.stop(spared)
    if left:
        say.problem(f"These processes could not be ended: {'; '.join(left)}")
        return 1
    stack.tidy(layout)
    say.step("Everything has ended; the data is kept" if not spared else "Ended; engines that ran before go on")
    return status


def start_everything(
    running: Stack, layout: Layout, chosen: LaunchSettings, prepared: Prepared, *, demo: bool
) -> tuple[dict[str, Any], str]:
    """Starts everything in order and waits until it is ready.

    Returns first-run.json's content and what did not become ready, in words (empty when all did).
    """
    left = stack.sweep_processes(layout)  # of a launcher that was killed
    if left:
        raise LauncherError(f"A process of an earlier run does not end: {', '.join(map(stack.describe, left))}.")
    preflight.check_ports(chosen.bind, chosen.ports)
    settings.ensure_secret_key(layout.secret_key)
    layout.make_sockets()
    environ = settings.process_environment(os.environ, layout, chosen, prepared)
    adopted = engines.living(layout.home)
    if adopted:
        say.step(f"Engines that went on running: {', '.join(engine.deployment for engine in adopted)}")
    start_servers(running, layout, environ)
    say.step("Starting gateway, node worker and collector")
    for service in services.data_plane(layout, chosen, environ):
        running.start(service)
    say.step("Database: preparing")
    database.migrate(layout, environ)
    running.tick()
    first_run = database.bootstrap(layout, chosen, environ)
    say.step("Starting controller, console, control worker and beat")
    controller, *others = services.control_plane(layout, chosen, environ)
    running.start(controller)
    database.collect_pages(layout, environ)
    for service in [*others, *(services.fleet_services(layout, environ) if demo else [])]:
        running.start(service)
    for name in (services.GATEWAY, "console"):
        running.wait_ready(running.children[name], 60)
        say.step(f"{name} answers")
    problem = waiting.wait_for_deployments(running, layout, chosen, first_run)
    if demo:
        running.start(services.demo_traffic(layout, environ))
    return first_run, problem


def start_servers(running: Stack, layout: Layout, environ: dict[str, str]) -> None:
    """Starts PostgreSQL and Valkey, unless others are named, and makes the database."""
    own = []
    if settings.has_own_database():
        own.append(servers.postgres_service(layout, environ))
    if settings.has_own_valkey():
        own.append(servers.valkey_service(layout, environ))
    if own:
        say.step(f"Starting {' and '.join(service.name for service in own)}")
    started = [running.start(service) for service in own]
    for child in started:
        running.wait_ready(child, 60)
    if settings.has_own_database():
        database.ensure_database(layout)


def say_ready(layout: Layout, first_run: dict[str, Any], problem: str, *, detached: bool) -> None:
    """Prints where everything is."""
    gateway, model = first_run["gateway_url"], first_run.get("model") or "<deployment>"
    end = "make down ends it." if detached else "Ctrl-C (or make down elsewhere) ends it."
    say.step("Ready" if not problem else "Running, but not everything is ready")
    say.line(f"""
  Console    {first_run["console_url"]}
  User       {first_run["username"]}; the password stands in {layout.first_run}
  Gateway    {gateway}/v1   (key: gateway_key in the same file)
  REST       {first_run["console_url"]}/api/v1/   (api_token in the same file)
  Logs       {layout.logs}

  Try it:
    KEY=$(python3 -c 'import json; print(json.load(open("{layout.first_run}"))["gateway_key"])')
    curl {gateway}/v1/chat/completions -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\
      -d '{json.dumps({"model": model, **TRY_IT})}'

  {end}
""")
    if problem:
        say.problem(problem)


def is_running(layout: Layout) -> bool:
    """Returns whether a launcher runs here; one that is just ending is waited for."""
    found = state.read(layout.state)
    if found is None or found.phase != state.STOPPING:
        return found is not None
    say.step("Waiting: the launcher before is ending")
    return not proc.wait_until(lambda: state.read(layout.state) is None, ENDING_LIMIT_S)


def say_already_running(layout: Layout, *, wait: bool) -> int:
    """Says that another launcher runs here; returns 0, with `wait` only once that one is ready."""
    other = state.read(layout.state)
    where = f" (process {other.pid}, console {other.console_url})" if other else ""
    say.line(f"Headworks is already running here{where}. make down ends it.")
    return wait_for_the_other(layout) if wait else 0


def detach(layout: Layout, *arguments: str) -> int:
    """Starts the launcher in a session of its own and returns when everything is ready."""
    path = layout.logs / "launcher.log"
    logs.bound(path, 1_000_000)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    follower = logs.Follower("", path)
    follower.prefix = ""
    command = [sys.executable, "-m", "controlplane.embedded", "serve", "--detached", *arguments]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=descriptor, stderr=descriptor, cwd=layout.root,
        start_new_session=True, env={**os.environ, **say.start_time_for_the_next()},
    )  # fmt: skip
    os.close(descriptor)
    me = proc.identify(process.pid)
    try:
        while process.poll() is None:
            follower.show()
            found = state.read(layout.state)
            if found is not None and found.phase == state.READY and found.process == me:
                follower.show()
                return 1 if found.problem else 0
            time.sleep(stack.TICK_S)
    except KeyboardInterrupt:
        process.send_signal(signal.SIGTERM)
        process.wait()
    follower.show()
    if process.returncode == ALREADY_RUNNING:
        return wait_for_the_other(layout)
    return process.returncode or 1


def wait_for_the_other(layout: Layout) -> int:
    """Waits until the launcher that runs already is ready; returns 0 when it is."""

    def settled() -> bool:
        found = state.read(layout.state)
        return found is None or found.phase == state.READY

    proc.wait_until(settled, waiting.READY_LIMIT_S + 120)
    found = state.read(layout.state)
    return 0 if found is not None and found.phase == state.READY and not found.problem else 1


def prepared_by(environ: dict[str, str]) -> Prepared:
    """Returns what the first part of the launcher has prepared, from the environment it hands on."""
    return Prepared(Path(environ["HEADWORKS_PREPARED_ENGINE"]), Path(environ["HEADWORKS_PREPARED_MODEL"]))
