"""Every address that the server knows, found by walking Django's resolver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

from tests.api.world import World, arguments_for


@dataclass(frozen=True)
class Route:
    """One pattern; `names` are its arguments."""

    route: str
    names: tuple[str, ...]
    callback: Any

    @property
    def is_rest(self) -> bool:
        return self.route.startswith("api/")

    def url(self, world: World) -> str:
        """Returns an address of this pattern that something of the world answers."""
        url = f"/{self.route}"
        for name, value in arguments_for(self.route, list(self.names), world.arguments).items():
            url = url.replace(
                next(part for part in _arguments(self.route) if part.endswith(f":{name}>")), str(value), 1
            )
        return url

    def methods(self) -> list[str]:
        """Returns the methods that a REST view has a handler for."""
        view = getattr(self.callback, "cls", None)
        if view is None:
            return ["GET"]
        return [name.upper() for name in ("get", "post", "put", "patch", "delete") if hasattr(view, name)]


def routes() -> list[Route]:
    return list(_walk("", get_resolver().url_patterns))


def _walk(prefix: str, patterns: list[Any]) -> Iterator[Route]:
    for pattern in patterns:
        assert isinstance(pattern.pattern, RoutePattern), f"{pattern.pattern} is a regular expression"
        route = f"{prefix}{pattern.pattern}"
        if isinstance(pattern, URLResolver):
            yield from _walk(route, pattern.url_patterns)
        elif isinstance(pattern, URLPattern):
            yield Route(route, tuple(part.strip("<>").split(":")[-1] for part in _arguments(route)), pattern.callback)


def _arguments(route: str) -> list[str]:
    return [f"<{part.split('>')[0]}>" for part in route.split("<")[1:]]
