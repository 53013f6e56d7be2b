from django.apps import AppConfig


class JournalConfig(AppConfig):
    name = "controlplane.journal"
    label = "journal"
