"""What the support bundle tells about machine, versions, settings, processes and ports."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path

from controlplane import env
from controlplane.embedded import children, engines, environments, logs, masking, preflight, proc, services, stack
from controlplane.embedded import state as launchers
from controlplane.embedded.layout import Layout
from controlplane.embedded.proc import ProcessId
from controlplane.embedded.settings import read_settings

_OURS = re.compile(r"^(HEADWORKS_|DATABASE_URL|REDIS_URL|DJANGO_|VLLM_|PIP_|npm_config_|CUDA|NVIDIA|PATH$|LANG|LC_)")
RECENT_LINES = 400


def versions(layout: Layout) -> str:
    """Returns the versions of Headworks, of the system and of every package in both environments."""
    out = [f"headworks {headworks_version(layout.root)}", f"python {platform.python_version()}", platform.platform()]
    for name in ("/etc/os-release", "/proc/version", "/proc/driver/nvidia/version"):
        out += proc_lines(name)[:2]
    for title, folder in (("control plane", layout.control_env), ("engine", layout.engine_link)):
        out.append(f"\n{title} ({folder})")
        out += sorted(path.stem for path in folder.glob("lib/python3*/site-packages/*.dist-info"))
    out.append("\nconsole")
    for path in sorted((layout.root / "node_modules").glob("*/package.json")):
        package = json.loads(path.read_text(encoding="utf-8"))
        out.append(f"{package.get('name')} {package.get('version')}")
    return "\n".join(out) + "\n"


def headworks_version(root: Path) -> str:
    """Returns the version that the change log names, with the commit where the checkout tells it; needs no git."""
    found = re.search(r"^## (\S+)", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    head = "\n".join(logs.tail(root / ".git" / "HEAD", 1)).removeprefix("ref: ")
    commit = head if re.fullmatch(r"[0-9a-f]{40}", head) else "".join(logs.tail(root / ".git" / head, 1))
    return f"{found[1] if found else 'unknown'} {commit[:12]}".strip()


def settings(layout: Layout, environ: Mapping[str, str]) -> str:
    """Returns the settings in force, secrets hidden."""
    out = [f"root {layout.root}", f"home {layout.home}", f"cache {layout.cache}", f"sockets {layout.sockets}"]
    for name in sorted(environ):
        if _OURS.match(name):
            out.append(f"{name}={masking.MASK if masking.is_secret_name(name) else environ[name]}")
    return "\n".join(out) + "\n"


def processes(layout: Layout) -> str:
    """Returns a table of every process of this installation."""
    servers, others = stack.living_processes(layout)
    names = {process: name for name, process in children.remembered(layout.home / "children.json").items()}
    for engine in engines.living(layout.home):
        for member in proc.group_members(engine.group):
            names.setdefault(member, f"engine {engine.deployment}/{engine.replica}")
            others.append(member)
    rows = [_row(process, names.get(process) or _gateway_process(process)) for process in [*servers, *others]]
    return "\n".join([f"{'pid':>8} {'state':5} {'MiB':>7} {'hours':>7}  name / command", *rows]) + "\n"


def _gateway_process(process: ProcessId) -> str:
    """The name of one of several processes of the gateway, whose parent is the launcher's child; else empty."""
    found = re.search(r"controlplane\.gateway --worker (\w+) (\d+) ", proc.command_line(process.pid))
    return f"gateway process {found[2]} ({found[1]})" if found else ""


def _row(process: ProcessId, name: str) -> str:
    status = dict(
        line.split(":", 1) for line in proc_lines(f"/proc/{process.pid}/status") if ":" in line
    )  # fmt: skip
    resident_mib = int((status.get("VmRSS", "0 kB").split() or ["0"])[0]) / 1024
    up_s = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0]) - (
        process.start_ticks / os.sysconf("SC_CLK_TCK")
    )
    state = status.get("State", "?").strip()[:1]
    command = proc.command_line(process.pid)
    return f"{process.pid:>8} {state:5} {resident_mib:>7.0f} {up_s / 3600:>7.2f}  {name} / {command}"


def ports(layout: Layout) -> str:
    """Returns who listens on the ports of Headworks and what answers there."""
    found = addresses(layout)
    if found is None:
        return "The settings can't be read.\n"
    out = []
    for name, url in zip(("console", "gateway"), found, strict=True):
        port = urllib.parse.urlsplit(url).port or 0
        owner = preflight.listener(port)
        what = f"{owner} {proc.command_line(owner)}" if owner else "nobody"
        out.append(f"{port} ({name}): {what}")
    for url in found:
        out.append(f"{url}/healthz: {services.get_status(url, '/healthz')}")
    return "\n".join(out) + "\n"


def machine(layout: Layout) -> str:
    """Returns room on disks, memory, load and cores."""
    out = [time.strftime("%Y-%m-%d %H:%M:%S %z"), f"cores {os.cpu_count()}", f"load {os.getloadavg()}", ""]
    for place in (layout.root, layout.home, layout.cache, Path("/tmp"), Path("/dev/shm")):  # noqa: S108 - only asked
        if place.exists():
            usage = shutil.disk_usage(place)
            out.append(f"{place}: {usage.free / 1e9:.1f} GB free of {usage.total / 1e9:.1f}")
    return "\n".join([*out, "", *proc_lines("/proc/meminfo")]) + "\n"


def addresses(layout: Layout) -> tuple[str, str] | None:
    """Returns the addresses of console and gateway: of the launcher that runs, which may have been started with other
    variables than these; else those that the settings name. None when these can't be read."""
    running = launchers.read(layout.state)
    if running is not None:
        return running.console_url, running.gateway_url
    try:
        chosen = read_settings(layout)
    except env.SettingError:
        return None
    return chosen.console_url, chosen.gateway_url


def dead_children(layout: Layout) -> Iterator[str]:
    """Yields a sentence for each process that should run and does not."""
    for name, process in children.remembered(layout.home / "children.json").items():
        if not proc.is_alive(process):
            yield f"{name} does not run (its log: {layout.logs / name}.log)."


def restarts(layout: Layout) -> Iterator[str]:
    """Yields a sentence for each process that had to be started again lately."""
    counts: dict[str, int] = {}
    for line in logs.tail(layout.logs / "launcher.log", RECENT_LINES):
        found = re.search(r"\] (\w+): (?:ended with|was ended by) .* starting it again", line)
        if found:
            counts[found[1]] = counts.get(found[1], 0) + 1
    for line in logs.tail(layout.logs / "gateway.log", RECENT_LINES):
        if found := re.search(r"(gateway process \d+) \(\w+\) has ended with status", line):
            counts[found[1]] = counts.get(found[1], 0) + 1
    for name, count in counts.items():
        yield f"{name} had to be started again {count} times lately (log: {layout.logs / name.partition(' ')[0]}.log)."


def silent_ports(layout: Layout) -> Iterator[str]:
    """Yields a sentence for each of our addresses that does not answer."""
    for url in addresses(layout) or ():
        if not services.answers(url, "/healthz"):
            yield f"{url} does not answer."


def replica_problems(layout: Layout) -> Iterator[str]:
    """Yields a sentence for each replica that has failed, with the reason on record."""
    for record in engines.records(layout.home):
        if record.get("state") != "failed":
            continue
        desired = record.get("desired") or {}
        transitions = record.get("transitions") or [{}]
        reason = transitions[-1].get("reason") or {}
        words = reason.get("message") if isinstance(reason, dict) else str(reason)
        yield f"Replica {desired.get('replica_id')} of {desired.get('deployment')} has failed: {words or 'no reason'}"


def tight_places(layout: Layout) -> Iterator[str]:
    """Yields a sentence for little room on a disk and for little memory."""
    for place in {layout.home, layout.cache}:
        if place.exists():
            problem = preflight.disk_problem(str(place), shutil.disk_usage(place).free, 2 * preflight.GB)
            if problem:
                yield problem
    memory = {line.split(":")[0]: line.split()[1] for line in proc_lines("/proc/meminfo") if ":" in line}
    available_gb = int(memory.get("MemAvailable", "0")) * 1024 / 1e9
    if available_gb < 1:
        yield f"Only {available_gb:.1f} GB of memory are available."


def unfinished_environments(layout: Layout) -> Iterator[str]:
    """Yields a sentence for each environment that is not whole."""
    for what, folder in (("control plane's", layout.control_env), ("engine's", layout.engine_link)):
        if not (folder / environments.MARKER).exists():
            yield f"The {what} environment ({folder}) is not complete; make up completes it."


def proc_lines(name: str) -> list[str]:
    """Returns the lines of a small file of the system; none when it is not there. (Those of /proc can't be sought.)"""
    try:
        return Path(name).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
