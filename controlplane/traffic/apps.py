from django.apps import AppConfig


class TrafficConfig(AppConfig):
    name = "controlplane.traffic"
    label = "traffic"

    def ready(self) -> None:
        from controlplane.deployments.controller import rules
        from controlplane.traffic import routed

        rules.register(routed.add_rules)
