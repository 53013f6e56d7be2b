"""`python -m controlplane.gateway`: the data plane as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import sys
import time
from collections.abc import Iterator

import uvicorn
import uvloop

from controlplane.domain.routing import CoolDowns
from controlplane.env import SettingError
from controlplane.gateway.app import Gateway
from controlplane.gateway.forward import Forwarder
from controlplane.gateway.metering import Meter
from controlplane.gateway.routes import Routes
from controlplane.gateway.settings import GatewaySettings, read_settings
from controlplane.gateway.snapshot import Snapshots
from controlplane.lib import valkey
from controlplane.lib.ids import new_id
from controlplane.lib.upstream import Pools

logger = logging.getLogger(__name__)

BACKLOG = 4096


class Server(uvicorn.Server):
    """uvicorn's server with signals that end it with exit status 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


class Process:
    """The parts of one gateway process and what runs beside the requests."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.meter = Meter()
        self.pools = Pools()
        self.cool_downs = CoolDowns()
        self.snapshots = Snapshots(settings.folder, self.pools, self._routes_changed)
        self.gateway_id = new_id(8)
        forwarder = Forwarder(self.meter, self.cool_downs)
        self.app = Gateway(
            settings,
            snapshots=self.snapshots,
            forwarder=forwarder,
            meter=self.meter,
            metrics=self._metrics,
            on_startup=self._start,
            on_shutdown=self._stop,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def _metrics(self) -> bytes:
        return b""

    def _routes_changed(self, routes: Routes) -> None:
        self.cool_downs.keep_only(routes.pools)

    async def _start(self) -> None:
        self.snapshots.load_from_disk()
        self._client = valkey.connect_async()
        self._tasks = [
            asyncio.create_task(self.snapshots.follow(self._client), name="snapshot"),
            asyncio.create_task(self._every_second(), name="every second"),
        ]
        for task in self._tasks:
            task.add_done_callback(_end_with)

    async def _every_second(self) -> None:
        while True:
            now = time.time()
            await asyncio.sleep(1.0 - now % 1.0)
            self.pools.sweep()

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.pools.close()
        await self._client.aclose()


def _end_with(task: asyncio.Task[None]) -> None:
    """A gateway without its clock or its snapshot must not look alive."""
    if not task.cancelled() and task.exception() is not None:
        logger.critical("the task %r failed", task.get_name(), exc_info=task.exception())
        signal.raise_signal(signal.SIGTERM)


def allow_many_files() -> None:
    """Each stream holds two sockets; the soft limit of 1,024 is raised to what the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run(settings: GatewaySettings) -> None:
    """Serves until SIGTERM or SIGINT; then takes nothing new, finishes what runs for up to `drain_s`, and returns."""
    process = Process(settings)
    config = uvicorn.Config(
        process.app,
        host=settings.bind,
        port=settings.port,
        http="httptools",
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=settings.drain_s,
        ssl_certfile=settings.tls_cert or None,
        ssl_keyfile=settings.tls_key or None,
    )
    # what is loaded by now stays: the collector need not look at it again and again
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    uvloop.run(Server(config).serve())


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = read_settings()
    except SettingError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    allow_many_files()
    run(settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
