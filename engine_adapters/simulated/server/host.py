"""One process, many simulated replicas: a port, an engine and a guard each, in one event loop.

A configuration file lists the replicas; on SIGHUP it is read again and the difference is carried out. SIGTERM ends at
once, as vLLM does without a shutdown time limit: whoever wants running requests to finish drains before.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from controlplane.domain.simulated_timing import Profile
from engine_adapters.simulated import settings as simulated_settings
from engine_adapters.simulated.logs import OPENING
from engine_adapters.simulated.server.app import App
from engine_adapters.simulated.server.driver import Driver
from engine_adapters.vllm.server.guard import KEY_VARIABLE, Guard

GIB = 1024**3


class ConfigError(Exception):
    """The replicas can't be started as they are described; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """One replica as the command line or the configuration file describes it."""

    port: int
    served_model_name: str
    key: str = field(repr=False)
    host: str = "127.0.0.1"
    cards: int = 1
    settings: tuple[tuple[str, Any], ...] = ()


def read_config(path: Path) -> list[ReplicaConfig]:
    """Returns the replicas of a file `{"replicas": [{"port", "served_model_name", "key", "settings": {…}}, …]}`."""
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"{path} holds keys and others can read it: chmod 600 {path}")
    try:
        entries = json.loads(path.read_text())["replicas"]
        return [_entry(entry) for entry in entries]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} does not describe replicas: {error!r}") from error


def _entry(entry: dict[str, Any]) -> ReplicaConfig:
    settings = tuple(sorted(entry.get("settings", {}).items()))
    key = entry.get("key") or os.environ.get(KEY_VARIABLE, "")
    host, cards = entry.get("host", "127.0.0.1"), int(entry.get("cards", 1))
    return ReplicaConfig(int(entry["port"]), str(entry["served_model_name"]), key, host, cards, settings)


def check(config: ReplicaConfig) -> Profile:
    """Returns the timing model of a replica; raises ConfigError when it could not run."""
    if not config.key:
        raise ConfigError(f"{KEY_VARIABLE} is not set: an engine without a key would be open to everybody.")
    settings = dict(config.settings)
    problems = simulated_settings.validate(settings)
    if problems:
        raise ConfigError("; ".join(f"{problem.field}: {problem.message}" for problem in problems))
    profile = simulated_settings.profile(settings, config.cards)
    tokens = profile.kv_blocks * profile.block_size
    if tokens == 0:
        raise ConfigError("No available memory for the cache blocks.")
    if tokens < profile.max_model_len:
        raise ConfigError(
            f"To serve at least one request with max seq len ({profile.max_model_len}), "
            f"({profile.max_model_len * profile.kv_bytes_per_token / GIB:.2f} GiB KV cache is needed, which is larger "
            f"than the available KV cache memory ({tokens * profile.kv_bytes_per_token / GIB:.2f} GiB). "
            f"Based on the available memory, the estimated maximum model length is {tokens}."
        )
    return profile


class Replica:
    """A listening engine."""

    def __init__(self, config: ReplicaConfig) -> None:
        self.config = config
        self._driver: Driver | None = None
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        profile = check(self.config)
        settings = dict(self.config.settings)
        self._announce(profile)
        await asyncio.sleep(simulated_settings.number(settings, "start_s"))
        interval = int(simulated_settings.number(settings, "stream_interval"))
        self._driver = Driver(profile, interval)
        app = App(self._driver, self.config.served_model_name, settings.get("dies_on_first_generation") is True)
        # uvicorn's protocol without its server: no timer that wakes each replica ten times a second
        http = uvicorn.Config(Guard(app, self.config.key), lifespan="off", log_config=None, access_log=False)
        http.load()
        state = ServerState()
        state.default_headers = http.encoded_headers
        protocol = partial(HttpToolsProtocol, config=http, server_state=state, app_state={})
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(protocol, self.config.host, self.config.port, backlog=1024)
        print(f"Simulated engine listens on http://{self.config.host}:{self.config.port}", flush=True)

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._driver is not None:
            self._driver.close()

    def _announce(self, profile: Profile) -> None:
        tokens = profile.kv_blocks * profile.block_size
        concurrency = profile.kv_blocks / -(-profile.max_model_len // profile.block_size)
        for line in (
            f"{OPENING}{self.config.served_model_name}: nothing is computed, times come from a model.",
            f"Model loading took {profile.weights_bytes / self.config.cards / GIB:.4f} GiB memory",
            f"Available KV cache memory: {tokens * profile.kv_bytes_per_token / self.config.cards / GIB:.2f} GiB",
            f"# GPU blocks: {profile.kv_blocks}, block_size={profile.block_size}",
            f"GPU KV cache size: {tokens:,} tokens",
            f"Maximum concurrency for {profile.max_model_len:,} tokens per request: {concurrency:.2f}x",
        ):
            print(line, flush=True)


async def serve(configs: list[ReplicaConfig], reread: Path | None) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit status."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    changed = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    running: dict[ReplicaConfig, Replica] = {}
    try:
        await _first_of(_start(configs, running), ended.wait())
    except (ConfigError, OSError) as error:
        print(f"ERROR {error}", file=sys.stderr, flush=True)
        return 1
    if reread is not None:
        loop.add_signal_handler(signal.SIGHUP, changed.set)
    while not ended.is_set():
        await _first_of(ended.wait(), changed.wait())
        if changed.is_set() and reread is not None:
            changed.clear()
            await _first_of(_reread(reread, running), ended.wait())
    for replica in running.values():
        replica.stop()
    await asyncio.sleep(0)  # the streams that were just ended get their last turn
    return 0


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Waits for one of them, gives up the others, and passes on what the first one raised."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    for task in done:
        task.result()


async def _start(configs: list[ReplicaConfig], running: dict[ReplicaConfig, Replica]) -> None:
    replicas = [Replica(config) for config in configs]
    await asyncio.gather(*(replica.start() for replica in replicas))
    running.update({replica.config: replica for replica in replicas})


async def _reread(path: Path, running: dict[ReplicaConfig, Replica]) -> None:
    try:
        wanted = read_config(path)
        for config in [config for config in running if config not in wanted]:
            running.pop(config).stop()
        await _start([config for config in wanted if config not in running], running)
    except (ConfigError, OSError) as error:
        print(f"ERROR kept what runs: {error}", file=sys.stderr, flush=True)
