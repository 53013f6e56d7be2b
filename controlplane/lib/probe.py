"""Health check of a container: `python -m controlplane.lib.probe 8000 /healthz` exits with 0 when it answers 200.

Uses https without checking the name when `HEADWORKS_TLS_CERT` is set: the question is whether this process answers.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys

TIMEOUT_S = 4.0


def answers(port: int, path: str, *, tls: bool) -> bool:
    """Returns whether `path` on this machine's `port` answers with status 200 within `TIMEOUT_S`."""
    connection: http.client.HTTPConnection
    if tls:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_S, context=context)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Host": "localhost"})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if answers(int(sys.argv[1]), sys.argv[2], tls=bool(os.environ.get("HEADWORKS_TLS_CERT"))) else 1)
