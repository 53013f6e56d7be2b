"""The collector: `python -m workers.node.collector`. One asyncio process a node.

Once a second it scrapes the node's engines on loopback, reads the cards, follows the engines' logs, and writes one
batch to Valkey. With `--all-nodes-under DIR` one process serves every simulated node whose folder lies in DIR.

Guarantees
    A stuck engine, a stuck driver or an absent Valkey delays no other reading. SIGTERM ends it within two seconds,
    with what was already read written if Valkey answers. What writes goes on after whatever error ended it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from controlplane import env
from controlplane.lib import tasks, valkey
from workers.node import inventory, records
from workers.node.collector_cards import Cards, CpuUse, GroupMemory
from workers.node.collector_logs import LogLine
from workers.node.collector_node import NodeCollector
from workers.node.collector_outbox import Outbox, Second
from workers.node.collector_parts import RollupClock, parts_of
from workers.node.collector_places import LogPlaces

logger = logging.getLogger(__name__)

# engines on loopback answer within milliseconds; later answers count for the next second
ANSWERS_WITHIN_S = 0.3
NODES_EVERY_S = 5.0
LAST_WRITE_S = 1.0
AGAIN_AFTER_S = 1.0


class Collector:
    """All nodes that this process serves."""

    def __init__(self, folders: Sequence[Path], parent: Path | None = None) -> None:
        self._folders = list(folders)
        self._parent = parent
        self._use = CpuUse()
        self._nodes: dict[Path, NodeCollector] = {}
        self._clock = RollupClock()
        self._looked_at = -NODES_EVERY_S
        self._places = LogPlaces()
        self.outbox = Outbox()

    async def second(self) -> None:
        """Collects one second and puts it into the outbox."""
        self._look_for_nodes()
        self._use.sample()
        scrapes = [scrape for node in self._nodes.values() for scrape in node.begin()]
        if scrapes:
            await asyncio.wait(scrapes, timeout=ANSWERS_WITHIN_S)
        at = time.time()
        parts = [part for node in self._nodes.values() for part in parts_of(node.finish(at))]
        self.outbox.put(Second(at, parts) if parts else None, self._clock.add(parts, at), self._new_log_lines())

    async def run(self, stop: asyncio.Event) -> None:
        """Collects a second each second until `stop`."""
        client = valkey.connect_async()
        works = {
            "writing samples": partial(self.outbox.send_forever, client),
            "asking how far logs were read": partial(self._places.ask_forever, client),
        }
        beside = [asyncio.create_task(tasks.keep_running(what, work, AGAIN_AFTER_S)) for what, work in works.items()]
        try:
            while not stop.is_set():
                await self.second()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1.0 - time.time() % 1.0):
                        await stop.wait()
        finally:
            await tasks.end(*beside)
            self.outbox.put(rollups=self._clock.finish())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WRITE_S):
                    await self.outbox.send(client)
            for node in self._nodes.values():
                await node.close()
            await client.aclose()

    def _new_log_lines(self) -> dict[str, Sequence[LogLine]]:
        self._places.ask(replica_id for node in self._nodes.values() for replica_id in node.logged())
        known = self._places.known
        return {name: lines for node in self._nodes.values() for name, lines in node.new_log_lines(known).items()}

    def _look_for_nodes(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < NODES_EVERY_S:
            return
        self._looked_at = now
        found = list(self._folders)
        if self._parent is not None and self._parent.is_dir():
            found += [path.parent for path in sorted(self._parent.glob(f"*/{inventory.SIMULATED_FILE}"))]
        for folder in found:
            if folder not in self._nodes:
                logger.info("collecting node %s", folder.name)
                cards = Cards(inventory.reader(folder))
                self._nodes[folder] = NodeCollector(folder.name, folder, cards, self._use, GroupMemory())


async def main(options: argparse.Namespace) -> None:
    """Runs the collector until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if options.all_nodes_under is not None:
        collector = Collector((), options.all_nodes_under)
    else:
        collector = Collector((records.node_folder(options.node or records.node_name()),))
    await collector.run(stop)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the command line's options."""
    parser = argparse.ArgumentParser(prog="python -m workers.node.collector", description="Collects a node's samples.")
    parser.add_argument("--node", help="name of the node (default: HEADWORKS_NODE_NAME)")
    parser.add_argument("--all-nodes-under", type=Path, help="serve every simulated node in this folder")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    logging.basicConfig(
        level=env.read_str("HEADWORKS_LOG_LEVEL", "INFO"), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    asyncio.run(main(parse()))
