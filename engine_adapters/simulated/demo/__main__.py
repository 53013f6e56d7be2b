"""`python -m engine_adapters.simulated.demo`: fills a simulated cluster with the traffic of a day on fast forward.

Makes the deployments of the plan over REST, waits until they serve, then sends requests through the gateway until it
is ended. Addresses, token and key come from the file that the first `make up` wrote.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import ssl
import sys
from pathlib import Path
from typing import Any

from controlplane import env
from engine_adapters.simulated.demo import gateway_client, plan, rest_client
from engine_adapters.simulated.demo.gateway_client import Gateway
from engine_adapters.simulated.demo.rest_client import ControlPlane, RestError

READY_TIMEOUT_S = 180.0
REPORT_EVERY_S = 15.0


def main() -> int:
    arguments = _parser().parse_args()
    try:
        access = json.loads(arguments.first_run.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return _fail(f"{arguments.first_run} can't be read ({error}). `make up` writes it on its first run.")
    tls = ssl.create_default_context(cafile=arguments.ca)
    try:
        return asyncio.run(_run(arguments, access, tls))
    except RestError as error:
        return _fail(str(error))
    except KeyError as error:
        return _fail(f"{arguments.first_run} has no {error}.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine_adapters.simulated.demo", allow_abbrev=False)
    parser.add_argument("--first-run", type=Path, default=env.headworks_home() / "first-run.json")
    parser.add_argument("--day-s", type=float, default=900.0, help="how long a day takes, in seconds")
    parser.add_argument("--begin-hour", type=float, default=8.0, help="the hour of the day at which it begins")
    parser.add_argument("--scale", type=float, default=1.0, help="times the plan's traffic")
    parser.add_argument("--max-in-flight", type=int, default=200, help="requests beyond are not sent")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ca", type=Path, default=None, help="certificate authority for https")
    parser.add_argument("--no-deployments", action="store_true", help="send traffic only, to what is there")
    return parser


async def _run(arguments: argparse.Namespace, access: dict[str, Any], tls: ssl.SSLContext) -> int:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    control = ControlPlane(access["console_url"], access["api_token"], tls)
    if not arguments.no_deployments:
        for deployment in plan.DEPLOYMENTS:
            await asyncio.to_thread(rest_client.put_deployment, control, deployment)
    if not await _wait_until_ready(control, ended):
        return 0
    gateway = Gateway(access["gateway_url"], access["gateway_key"], tls)
    await _Traffic(gateway, arguments).run(ended)
    return 0


async def _wait_until_ready(control: ControlPlane, ended: asyncio.Event) -> bool:
    deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
    waiting = [deployment.name for deployment in plan.DEPLOYMENTS]
    _say(f"demo: waiting for {', '.join(waiting)}")
    while waiting and asyncio.get_running_loop().time() < deadline:
        waiting = [name for name in waiting if not await asyncio.to_thread(rest_client.ready_replicas, control, name)]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), 1.0)
        if ended.is_set():
            return False
    if waiting:
        _say(f"demo: {', '.join(waiting)} did not become ready; its requests will be refused")
    return True


class _Traffic:
    """Sends the plan's requests at their times and counts what came of them."""

    def __init__(self, gateway: Gateway, arguments: argparse.Namespace) -> None:
        self._gateway = gateway
        self._arguments = arguments
        self._tasks: set[asyncio.Task[None]] = set()
        self._answered = self._failed = self._held_back = 0

    async def run(self, ended: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        begin, report_at = loop.time(), REPORT_EVERY_S
        begin_at = self._arguments.begin_hour / 24
        chance = random.Random(self._arguments.seed)  # noqa: S311 - traffic, no secret
        for arrival in plan.arrivals(chance, self._arguments.day_s, self._arguments.scale, begin_at):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), max(0.0, begin + arrival.at - loop.time()))
            if ended.is_set():
                break
            self._start(arrival)
            if arrival.at > report_at:
                self._report(arrival.at)
                report_at = arrival.at + REPORT_EVERY_S
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, arrival: plan.Arrival) -> None:
        if len(self._tasks) >= self._arguments.max_in_flight:
            self._held_back += 1
            return
        task = asyncio.get_running_loop().create_task(self._send(arrival))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, arrival: plan.Arrival) -> None:
        if await gateway_client.send(self._gateway, arrival) == 200:
            self._answered += 1
        else:
            self._failed += 1

    def _report(self, at: float) -> None:
        hour = (at / self._arguments.day_s * 24 + self._arguments.begin_hour) % 24
        _say(
            f"demo: {int(hour):02d}:{int(hour % 1 * 60):02d} of the demo's day, {len(self._tasks)} running, "
            f"{self._answered} answered, {self._failed} failed, {self._held_back} held back"
        )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _fail(text: str) -> int:
    sys.stderr.write(f"demo: {text}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
