"""The Celery application of a node worker: no Django, no results, one queue that only this node reads.

Celery carries hints and work that ends. The supervisor does not depend on it: it runs in a thread of its own that
starts before the worker looks for its broker and ends after the worker has let go of it.
"""

from __future__ import annotations

import logging
import time
import warnings
from pathlib import Path
from typing import Any

from celery import Celery, bootsteps
from celery.exceptions import SecurityWarning
from celery.worker import state
from celery.worker.consumer import Consumer

from controlplane import env
from controlplane.lib import keys, valkey
from engine_adapters import registry
from workers.node import ports, records
from workers.node.inventory import InventoryWatch, Machine
from workers.node.supervisor import NodeSettings, Supervisor

logger = logging.getLogger(__name__)

RECONNECT_AT_MOST_S = 3.0

app = Celery("headworks.node", include=["workers.node.tasks"], set_as_current=False)
app.conf.update(
    broker_url=valkey.url().replace("unix://", "redis+socket://"),
    # The same as controlplane.settings gives the sender.
    broker_transport_options={
        "visibility_timeout": 120,
        "global_keyprefix": f"{keys.NAMESPACE}:celery:",
        "socket_connect_timeout": 5,
        "socket_timeout": 30,
    },
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,  # the default gives up after 100 attempts, and the worker ends
    accept_content=["json"],
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
    worker_consumer="workers.node.app:PatientConsumer",
    timezone="UTC",
)


class PatientConsumer(Consumer):
    """Tries its broker again every few seconds, where the default waits up to half a minute."""

    def ensure_connected(self, conn: Any) -> Any:
        return conn.ensure_connection(
            self._complain, None, 0.5, 0.5, RECONNECT_AT_MOST_S, callback=state.maybe_shutdown
        )

    def _complain(self, error: Exception, interval_s: float) -> None:
        logger.warning("the task queue can't be reached (%s), next try in %.1f s", error, interval_s)


class SupervisorStep(bootsteps.StartStopStep):
    """Runs the supervisor as long as the worker."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.supervisor: Supervisor | None = None

    def start(self, parent: Any) -> None:
        self.supervisor = make_supervisor()
        self.supervisor.start()
        running.supervisor = self.supervisor

    def stop(self, parent: Any) -> None:
        running.supervisor = None
        if self.supervisor is not None:
            self.supervisor.stop()
            self.supervisor = None

    terminate = stop


class Running:
    """Where the tasks find the supervisor of this process."""

    supervisor: Supervisor | None = None


running = Running()
app.steps["worker"].add(SupervisorStep)


def make_supervisor() -> Supervisor:
    """Returns the supervisor of this machine as the environment describes it."""
    name = records.node_name()
    engine_python = env.read_str("HEADWORKS_ENGINE_PYTHON", "")
    address = env.read_str("HEADWORKS_NODE_ADDRESS", "127.0.0.1")
    node = NodeSettings(
        name=name,
        folder=records.node_folder(name),
        address=address,
        bind=env.read_str("HEADWORKS_NODE_BIND", address),
        engine_python=engine_python,
        code_root=str(Path(__file__).resolve().parents[2]),
    )
    return Supervisor(node, InventoryWatch(Machine(engine_python).read), ports.from_environment(), registry.get)


def main() -> None:
    """Runs the worker until SIGTERM or SIGINT; the engines go on."""
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        level=env.read_str("HEADWORKS_LOG_LEVEL", "INFO"), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    try:
        name = records.node_name()
        ports.from_environment()
    except env.SettingError as error:
        raise SystemExit(f"node worker: {error}") from None
    # Only JSON is accepted, so root is no more dangerous here than for any other process of the container.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    arguments = [
        "--quiet", "worker", "--queues", f"node.{name}", "--hostname", f"node@{name}", "--pool", "threads",
        "--concurrency", "2", "--without-gossip", "--without-mingle", "--without-heartbeat",
        "--loglevel", env.read_str("HEADWORKS_LOG_LEVEL", "INFO"),
    ]  # fmt: skip
    app.worker_main(arguments)
