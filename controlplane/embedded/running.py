"""Settings of the stack that `make up` runs, for programs that are started by hand beside it (`manage.py`).

They are those of its controller, as the kernel tells them to the same user: whatever the stack was started with (own
servers or others, another name space) the program beside it uses too. Nothing is kept on disk for this.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from controlplane.embedded import children, proc, settings

# who knows both servers and the secret key; the first of these that runs is asked
ASKED = ("controller", "worker", "beat", "console")
_SERVERS = ("DATABASE_URL", "REDIS_URL")
_SECRETS = (*_SERVERS, "HEADWORKS_SECRET_KEY")


def settings_to_take(home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns what a program has to add to its environment in order to work on the stack that runs in `home`.

    Nothing where no stack runs, and nothing for who has named a server himself: half of one stack and half of another
    is what nobody wants. What is in `environ` already stays as it is.
    """
    if names_a_server(environ):
        return {}
    theirs = _environment_of_the_stack(home)
    taken = {name: value for name, value in theirs.items() if name.startswith("HEADWORKS_") and name not in environ}
    taken.pop(settings.MARK, None)  # who is ended with the stack has it
    for name in _SECRETS:
        for variant in (name, f"{name}_FILE"):
            taken.pop(variant, None)
            if not _is_given(name, environ) and theirs.get(variant):
                taken[variant] = theirs[variant]
    return taken


def names_a_server(environ: Mapping[str, str]) -> bool:
    """Returns whether this environment says itself which servers are meant."""
    return any(_is_given(name, environ) for name in _SERVERS)


def _is_given(name: str, environ: Mapping[str, str]) -> bool:
    return bool(environ.get(name) or environ.get(f"{name}_FILE"))


def _environment_of_the_stack(home: Path) -> dict[str, str]:
    known = children.remembered(home / "children.json")
    for process in [known[name] for name in ASKED if name in known]:
        if proc.is_alive(process):
            return proc.environment(process.pid)
    return {}
