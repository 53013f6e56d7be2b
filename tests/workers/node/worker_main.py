"""The real node worker as a process, with the tiny engine added to the engines it knows."""

from __future__ import annotations

from engine_adapters import registry
from tests.workers.node.tiny_adapter import TinyAdapter
from workers.node import app

registry._BY_NAME["tiny"] = TinyAdapter()
app.main()
