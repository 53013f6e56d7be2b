"""The parts of one gateway process, put together once, and the tasks that run beside the requests."""

from __future__ import annotations

import asyncio
import logging
import signal
import time

from controlplane.domain.rollups import minute_of
from controlplane.domain.routing import CoolDowns
from controlplane.gateway.app import Gateway
from controlplane.gateway.company import Company
from controlplane.gateway.engine_samples import EngineSamples
from controlplane.gateway.forward import Forwarder
from controlplane.gateway.gates import Gates
from controlplane.gateway.knees import Knees
from controlplane.gateway.metering import Meter
from controlplane.gateway.metrics import exposition
from controlplane.gateway.outbox import Outbox
from controlplane.gateway.owners import Owners
from controlplane.gateway.readiness import Readiness
from controlplane.gateway.routes import Routes
from controlplane.gateway.sampling import Sampler
from controlplane.gateway.server import Life, Server
from controlplane.gateway.settings import GatewaySettings
from controlplane.gateway.snapshot import Snapshots
from controlplane.gateway.state_report import StateReport
from controlplane.gateway.watchdog import Watchdog
from controlplane.lib import tasks, valkey
from controlplane.lib.ids import new_id
from controlplane.lib.upstream import Pools

logger = logging.getLogger(__name__)

AFTER_THE_SECOND_S = 0.02  # a timer that fires early must not end the same second twice


class Process:
    """The parts of one gateway process and what runs beside the requests."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        worker = settings.worker
        gateway_id = self.gateway_id = new_id(8) if worker is None else worker.id
        self.meter = Meter()
        self.gates = Gates(self.meter, settings.overload_status, sequences_most=settings.sequences_most)
        self.engine_samples = EngineSamples(self.gates)
        self.pools = Pools()
        self.cool_downs = CoolDowns()
        self.snapshots = Snapshots(settings.folder, self.pools, self._routes_changed, keep=settings.slot == 0)
        self.owners = Owners(self.gates)
        self.knees = Knees(self.gates, self.owners.is_elsewhere)
        self.sampler = Sampler(self.meter, self.gates, f"gateway:{gateway_id}", self.owners.is_elsewhere)
        self.outbox = Outbox(self.meter, gateway_id, settings.folder, settings.slot, settings.processes)
        self.company: Company | None = None
        if worker is not None or settings.address:
            self.company = Company(settings, gateway_id, self.owners, self.gates, self._figures)
        figures = None if self.company is None else self.company.figures
        self.state_report = StateReport(self.gates, gateway_id, f"{settings.bind}:{settings.port}")
        self.state_report.owners = self.owners
        forwarder = Forwarder(self.meter, self.gates, self.cool_downs, settings.media_domains)
        forwarder.is_elsewhere = self.owners.is_elsewhere
        self.app = Gateway(
            settings,
            snapshots=self.snapshots,
            forwarder=forwarder,
            owners=self.owners,
            metrics=self._figures if figures is None else figures.own,
            summed_metrics=None if figures is None else figures.together,
            readiness=self._readiness(),
        )
        self.watchdog = Watchdog() if worker is None else None  # of several processes each is watched by the parent
        self._tasks: list[asyncio.Task[None]] = []

    def _figures(self) -> bytes:
        return exposition(
            self.meter,
            self.gates,
            self.sampler,
            snapshots=self.snapshots,
            outbox=self.outbox,
            owners=self.owners,
        )

    def _readiness(self) -> Readiness:
        company, notes = self.company, self.gates.quotas.notes
        if company is None or self.settings.worker is None:
            return Readiness(self.snapshots, notes)
        return Readiness(self.snapshots, notes, lambda: company.members.siblings, self.settings.processes)

    def _routes_changed(self, routes: Routes) -> None:
        self.cool_downs.keep_only(routes.pools)
        self.gates.update(routes)

    def server(self) -> Server:
        """Returns the HTTP server of this process; it takes nothing new after SIGTERM, finishes what runs for up to
        `drain_s`, and then stops the rest."""
        settings = self.settings
        self._server = Server(
            self.app.serve,
            Life(self._start, self._leave, self._stop),
            address=(settings.bind, settings.port),
            tls=(settings.tls_cert, settings.tls_key) if settings.tls_cert else None,
            drain_s=settings.drain_s,
        )
        return self._server

    async def _start(self) -> None:
        self.snapshots.load_from_disk()
        self.outbox.load()
        self._turn()
        self._client = valkey.connect_async()
        self.gates.quotas.connect(self._client, self.gateway_id)
        self._tasks = [
            asyncio.create_task(self.snapshots.follow(self._client), name="snapshot"),
            asyncio.create_task(self.outbox.run(self._client), name="outbox"),
            asyncio.create_task(self.outbox.keep(), name="usage backlog"),
            asyncio.create_task(self.engine_samples.follow(self._client), name="engine samples"),
            asyncio.create_task(self.state_report.run(self._client), name="state report"),
            asyncio.create_task(self.knees.run(self._client), name="knees"),
            asyncio.create_task(self.gates.quotas.run(), name="quotas"),
            asyncio.create_task(self.gates.ladders.news.run(self._client), name="ladder news"),
            asyncio.create_task(self._every_second(), name="every second"),
        ]
        if self.company is not None:
            await self.company.open(self.app.inside, self._server.state, self._client)
            self._tasks.append(asyncio.create_task(self.company.members.run(self._client), name="members"))
        for task in self._tasks:
            task.add_done_callback(_end_with)
        if self.watchdog is not None:
            self.watchdog.start()

    async def _every_second(self) -> None:
        while True:
            await asyncio.sleep(1.0 + AFTER_THE_SECOND_S - time.time() % 1.0)
            self.pools.sweep()
            self._turn()
            if self.company is not None:
                self.company.second()
            if self.watchdog is not None:
                self.watchdog.turn()

    def _turn(self) -> None:
        now = time.time()
        self.meter.minute = minute_of(now)
        routes = self.snapshots.routes
        self.outbox.add(self.sampler.turn(now, None if routes is None else routes.snapshot))
        self.gates.second(self.engine_samples.newest(), time.monotonic())
        self.state_report.turn(now, time.monotonic())

    async def _leave(self) -> None:
        if self.company is not None:
            await self.company.leave(self._client)

    async def _stop(self) -> None:
        if self.watchdog is not None:
            self.watchdog.stop()
        await tasks.end(*self._tasks)
        self._turn()
        if self.company is not None:
            self.company.second()
            await self.company.close(self._client)
        await self.gates.quotas.leave()
        await self.outbox.close(self._client)
        self.pools.close()
        await self._client.aclose()


def _end_with(task: asyncio.Task[None]) -> None:
    """A gateway without its clock or its snapshot must not look alive."""
    if not task.cancelled() and task.exception() is not None:
        logger.critical("the task %r failed", task.get_name(), exc_info=task.exception())
        signal.raise_signal(signal.SIGTERM)
