#!/usr/bin/env python
"""Django's command line with Headworks' settings."""

from __future__ import annotations

import os
import sys


def main() -> None:
    if sys.argv[1:2] == ["estimate"]:
        estimate()
        return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    from django.core.management import execute_from_command_line

    from controlplane.env import SettingError

    try:
        execute_from_command_line(sys.argv)
    except SettingError as error:
        sys.exit(f"manage.py: {error}")


def estimate() -> None:
    """Sums over standard input: they need no setting, no database and no application, so none is asked for."""
    from django.conf import settings

    from controlplane.catalog.management.commands.estimate import Command

    settings.configure()
    Command().run_from_argv(sys.argv)


if __name__ == "__main__":
    main()
