"""The consumer of usage alone: counts what gateways have written, as the control worker's task does, every 3 s (an
installation: every 10). Its CPU stands beside the gateway's.

    python -m benchmarks.usage_consumer        # DATABASE_URL, REDIS_URL; ends with SIGTERM
"""

from __future__ import annotations

import time

import django

EVERY_S = 3.0


def main() -> None:
    django.setup()
    from controlplane.traffic.services import usage

    while True:
        usage.drain()
        time.sleep(EVERY_S)


if __name__ == "__main__":
    main()
