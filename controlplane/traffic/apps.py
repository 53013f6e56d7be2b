from django.apps import AppConfig


class TrafficConfig(AppConfig):
    name = "controlplane.traffic"
    label = "traffic"

    def ready(self) -> None:
        """Lets routing documents carry the rules of traffic, and ledgers know how long requests are."""
        from controlplane.deployments.controller import rules
        from controlplane.deployments.services import mean_request
        from controlplane.traffic import routed, selectors

        rules.register(routed.add_rules)
        mean_request.provide(selectors.mean_request_tokens)
