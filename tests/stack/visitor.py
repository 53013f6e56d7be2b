"""A person at the console: the login form, pages, and the telemetry socket with the cookie of the session."""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import re
import time
import urllib.parse
import urllib.request
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.stack.stack_process import RunningStack

Frame = dict[str, Any]


class Visitor:
    """Somebody who has logged in with the password of the first run."""

    def __init__(self, stack: RunningStack) -> None:
        self.base = f"http://127.0.0.1:{stack.console_port}"
        self._cookies = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies))
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', self.page("/login/"))
        assert found, "the login page has no form"
        first = stack.first_run
        form = {"csrfmiddlewaretoken": found[1], "username": first["username"], "password": first["password"]}
        request = urllib.request.Request(
            f"{self.base}/login/", urllib.parse.urlencode(form).encode(), {"Referer": f"{self.base}/login/"}
        )
        with self._opener.open(request, timeout=30) as answer:
            assert not answer.url.endswith("/login/"), "the login was refused"

    def page(self, path: str) -> str:
        """Returns the HTML of a page."""
        with self._opener.open(self.base + path, timeout=30) as answer:
            return str(answer.read().decode())

    def socket(self) -> ClientConnection:
        """Opens the telemetry socket as a page does."""
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in self._cookies)
        url = self.base.replace("http://", "ws://", 1) + "/ws/telemetry/"
        return connect(url, origin=Origin(self.base), additional_headers={"Cookie": cookies}, open_timeout=10)


class LiveView:
    """A page that shows one subject live: it subscribes, and again whenever its socket breaks."""

    def __init__(self, visitor: Visitor, subject: str) -> None:
        self.visitor = visitor
        self.subject = subject
        self.connects = 0
        self._open = contextlib.ExitStack()
        self._socket: ClientConnection | None = None

    def next_frame(self) -> Frame:
        """Returns the next frame of the subject; connects anew as long as it takes, but no longer than a minute."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, WebSocketException):
                frame: Frame = json.loads(self._connected().recv(timeout=5))
                if frame.get("subject") == self.subject:
                    return frame
                continue
            self.close()
            time.sleep(0.3)
        raise AssertionError(f"nothing of {self.subject} came for a minute")

    def next_sample(self, after: float = 0.0) -> Frame:
        """Returns the next sample of a second later than `after`."""
        while True:
            frame = self.next_frame()
            if frame["type"] == "sample" and frame["t"] > after:
                return frame

    def close(self) -> None:
        """Leaves the page."""
        self._open.close()
        self._socket = None

    def _connected(self) -> ClientConnection:
        if self._socket is None:
            self._socket = self._open.enter_context(self.visitor.socket())
            self.connects += 1
            wish = {"type": "subscribe", "subjects": [self.subject], "history_s": 60}
            self._socket.send(json.dumps(wish))
        return self._socket
