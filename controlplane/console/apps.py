from __future__ import annotations

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "controlplane.console"

    def ready(self) -> None:
        from django.conf import settings

        from controlplane.console import translations

        for folder in settings.LOCALE_PATHS:
            translations.compile_stale(folder)
