"""Serves the console: `python -m controlplane.serve`. Address, TLS and trusted proxies come from the environment.

`HEADWORKS_BIND`, `HEADWORKS_CONSOLE_PORT`, `HEADWORKS_TLS_CERT` with `HEADWORKS_TLS_KEY` (PEM files), and
`HEADWORKS_TRUSTED_PROXIES` (addresses whose X-Forwarded-For and -Proto are believed; empty = nobody's).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import django
import uvicorn

from controlplane import env
from controlplane.lib import http_server

SHUTDOWN_S = 8
LONGEST_FRAME_BYTES = 64 * 1024  # a client's frame names subjects, at most 100 of them


def server_options() -> dict[str, object]:
    """Returns uvicorn's options; raises SettingError naming the variable that can't be used."""
    certificate, key = env.read_str("HEADWORKS_TLS_CERT", ""), env.read_str("HEADWORKS_TLS_KEY", "")
    if bool(certificate) != bool(key):
        raise env.SettingError("HEADWORKS_TLS_CERT and HEADWORKS_TLS_KEY belong together; one of them is not set.")
    for name, path in (("HEADWORKS_TLS_CERT", certificate), ("HEADWORKS_TLS_KEY", key)):
        if path and not Path(path).is_file():
            raise env.SettingError(f"{name}={path!r} is not a file.")
    proxies = env.read_list("HEADWORKS_TRUSTED_PROXIES")
    return {
        "host": env.read_str("HEADWORKS_BIND", "127.0.0.1"),
        "port": env.read_int("HEADWORKS_CONSOLE_PORT", 8000, low=1, high=65535),
        "ssl_certfile": certificate or None,
        "ssl_keyfile": key or None,
        "proxy_headers": bool(proxies),
        "forwarded_allow_ips": proxies,
        "http": http_server.Protocol,
        "ws_max_size": LONGEST_FRAME_BYTES,
        "timeout_graceful_shutdown": SHUTDOWN_S,
        "access_log": False,
        "server_header": False,
        "ws_ping_interval": 20.0,
        "ws_ping_timeout": 20.0,
        "log_level": "info",
    }


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    try:
        options = server_options()
        django.setup()  # settings that can't be used are told before anything listens
    except env.SettingError as error:
        sys.exit(f"console: {error}")
    config = uvicorn.Config("controlplane.asgi:application", **options)  # type: ignore[arg-type]
    server = http_server.Server(config)
    server.run()
    if not server.started:
        sys.exit(3)


if __name__ == "__main__":
    main()
