"""Makes the demonstration's models and deployments over REST, as any automation would. PUT twice changes nothing."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from engine_adapters.simulated.demo.plan import DemoDeployment


class RestError(Exception):
    """The control plane refused or did not answer; the text is its own sentence."""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Where REST is, and the token that opens it."""

    url: str
    token: str
    tls: ssl.SSLContext | None = None

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Sends one request and returns its JSON; raises RestError."""
        request = urllib.request.Request(  # noqa: S310 - the address is the operator's own
            f"{self.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"authorization": f"Bearer {self.token}", "content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.tls) as answer:  # noqa: S310
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise RestError(f"{method} {path}: {error.code} {_sentence(error.read())}") from error
        except (OSError, ValueError) as error:
            raise RestError(f"{method} {path}: {error}") from error


def put_deployment(control: ControlPlane, deployment: DemoDeployment) -> None:
    """Makes one deployment with its model and variant be as the plan says."""
    model = {
        "display_name": f"{deployment.model} (simulated)",
        "family": "demo",
        "parameters": deployment.parameters,
        "context_length_tokens": deployment.context_tokens,
        "source": "simulated",
    }
    control.call("PUT", f"/models/{deployment.model}/", model)
    variant = {"path": "simulated", "precision": "bf16", "size_bytes": 2 * deployment.parameters}
    control.call("PUT", f"/models/{deployment.model}/variants/bf16/", variant)
    control.call("PUT", f"/deployments/{deployment.name}/", deployment.wish())


def ready_replicas(control: ControlPlane, name: str) -> int:
    """Returns how many replicas of a deployment serve."""
    return int(control.call("GET", f"/deployments/{name}/")["replicas_ready"])


def _sentence(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")
