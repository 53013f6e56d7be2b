"""The REST call that does the same as a button, to be copied."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.conf import settings

TOKEN = "$HEADWORKS_TOKEN"  # noqa: S105
KEY = "$HEADWORKS_KEY"


def call(method: str, path: str, body: Mapping[str, Any] | None = None, *, version: int | None = None) -> str:
    """Returns a curl command for `/api/v1/<path>`; the token is a shell variable, never the real one.

    `version` is that of the object as it was seen (0 = it must not exist yet).
    """
    lines = [
        f"curl -X {method} {settings.CONSOLE_URL}/api/v1/{path}",
        f'  -H "Authorization: Bearer {TOKEN}"',
    ]
    if version is not None:
        lines.append(f"  -H 'If-Match: \"{version}\"'" if version else "  -H 'If-None-Match: *'")
    if body is not None:
        lines.append('  -H "Content-Type: application/json"')
        # a single quote ends the shell's string; it is put outside of it
        text = json.dumps(body, ensure_ascii=False, indent=2 if len(body) > 2 else None).replace("'", "'\\''")
        lines.append(f"  -d '{text}'")
    return " \\\n".join(lines)


def chat(model: str, prompt: str) -> str:
    """Returns a curl command that asks the gateway for what the box to try a model asks; the key is a variable."""
    body = {"model": model, "messages": [{"role": "user", "content": prompt}], "stream": True}
    text = json.dumps(body, ensure_ascii=False).replace("'", "'\\''")
    lines = [
        f"curl -N {settings.GATEWAY_URL}/v1/chat/completions",
        f'  -H "Authorization: Bearer {KEY}"',
        '  -H "Content-Type: application/json"',
        f"  -d '{text}'",
    ]
    return " \\\n".join(lines)
