"""Simulated nodes in one process, for a look at a large cluster on a small machine.

`python -m workers.node.simulated_fleet --nodes 4 --cards 8 --card "NVIDIA H100 80GB HBM3"`

Each node has its own supervisor and folder and reports itself as simulated; the supervisors, the engine processes and
everything after them are the real ones. There is no Celery here: the supervisors need none.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from controlplane import env
from controlplane.domain.observed import AcceleratorObserved
from controlplane.domain.topology import SELF, Topology
from controlplane.lib import wire
from engine_adapters import registry
from workers.node import inventory, ports, records
from workers.node.inventory import Inventory, InventoryWatch
from workers.node.supervisor import NodeSettings, Supervisor

logger = logging.getLogger(__name__)

GB = 1_000_000_000
CARDS_A_SOCKET = 4


def make_cards(
    node: str, count: int, name: str, memory_bytes: int, bandwidth: float
) -> tuple[AcceleratorObserved, ...]:
    """Returns the cards of one simulated node; `bandwidth` is in bytes per second."""
    return tuple(
        AcceleratorObserved(
            uuid=f"SIM-{node}-{index}",
            index=index,
            kind="simulated",
            name=name,
            address=str(index),
            memory_total_bytes=memory_bytes,
            memory_used_bytes=None,
            memory_free_bytes=None,
            numa_node=index // CARDS_A_SOCKET,
            bandwidth_bytes_per_s=bandwidth,
        )
        for index in range(count)
    )


def make_inventory(cards: tuple[AcceleratorObserved, ...]) -> Inventory:
    """Returns what a simulated node reports; its cards are joined by NVLink, all with all."""
    links = tuple(tuple(SELF if one is other else "NV18" for other in cards) for one in cards)
    return Inventory(
        accelerators=cards,
        engines={"simulated": "1"},
        cpu_count=None,
        topology=Topology(links, tuple(one.numa_node for one in cards)),
    )


def make_supervisor(node: str, cards: tuple[AcceleratorObserved, ...], range_: ports.PortRange) -> Supervisor:
    """Returns the supervisor of one simulated node, and leaves its cards where the collector finds them."""
    folder = records.node_folder(node)
    records.write_private(folder / inventory.SIMULATED_FILE, wire.encode(cards))
    found = make_inventory(cards)

    def read(own_sessions: Mapping[int, str]) -> Inventory:
        return found

    settings = NodeSettings(
        name=node,
        folder=folder,
        address="127.0.0.1",
        bind="127.0.0.1",
        engine_python="",
        code_root=str(Path(__file__).resolve().parents[2]),
        simulated=True,
    )
    return Supervisor(settings, InventoryWatch(read), range_, registry.get)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the command line's options."""
    parser = argparse.ArgumentParser(prog="python -m workers.node.simulated_fleet", description="Simulated nodes.")
    parser.add_argument("--nodes", type=int, default=4, help="how many nodes (default 4)")
    parser.add_argument("--cards", type=int, default=8, help="cards a node (default 8)")
    parser.add_argument("--card", default="NVIDIA H100 80GB HBM3", help="name of the card")
    parser.add_argument("--memory-gb", type=float, default=80.0, help="memory of a card in GB (default 80)")
    parser.add_argument("--bandwidth-gb-per-s", type=float, default=3350.0, help="bandwidth of a card (default 3350)")
    parser.add_argument("--prefix", default="sim", help="the nodes are called <prefix>-01, <prefix>-02, …")
    options = parser.parse_args(arguments)
    if options.nodes < 1 or options.cards < 1:
        parser.error("a fleet has at least one node with one card")
    return options


def run(options: argparse.Namespace, ending: threading.Event) -> None:
    """Runs the fleet until `ending`; its engines go on."""
    range_ = ports.from_environment()
    memory_bytes, bandwidth = int(options.memory_gb * GB), options.bandwidth_gb_per_s * GB
    fleet: list[Supervisor] = []
    for number in range(1, options.nodes + 1):
        node = f"{options.prefix}-{number:02d}"
        cards = make_cards(node, options.cards, options.card, memory_bytes, bandwidth)
        fleet.append(make_supervisor(node, cards, range_))
        fleet[-1].start()
    logger.info("%d simulated nodes with %d x %s each", options.nodes, options.cards, options.card)
    ending.wait()
    threads = [threading.Thread(target=one.stop) for one in fleet]  # each waits for its connections, so together
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    """Runs the fleet until SIGTERM or SIGINT."""
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        level=env.read_str("HEADWORKS_LOG_LEVEL", "INFO"), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    os.umask(0o077)
    run(parse(), ending)


if __name__ == "__main__":
    main()
