#!/usr/bin/env python
"""Django's command line with Headworks' settings.

Beside a stack that `make up` runs it works on that stack, unless DATABASE_URL or REDIS_URL name others.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    if sys.argv[1:2] == ["estimate"]:
        estimate()
        return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    from django.core.management import execute_from_command_line
    from django.db import InterfaceError, OperationalError

    from controlplane import env
    from controlplane.embedded import running

    home, hint = env.headworks_home(), ""
    taken = running.settings_to_take(home, os.environ)
    if not taken and not running.names_a_server(os.environ):
        hint = f" No stack of make up runs in {home}; start it, or name the servers: DATABASE_URL and REDIS_URL."
    os.environ.update(taken)
    try:
        execute_from_command_line(sys.argv)
    except env.SettingError as error:
        sys.exit(f"manage.py: {error}{hint}")
    except (OperationalError, InterfaceError) as error:
        sys.exit(f"manage.py: The database does not answer: {str(error).strip().splitlines()[0]}.{hint}")


def estimate() -> None:
    """Sums over standard input: they need no setting, no database and no application, so none is asked for."""
    from django.conf import settings

    from controlplane.catalog.management.commands.estimate import Command

    settings.configure()
    Command().run_from_argv(sys.argv)


if __name__ == "__main__":
    main()
