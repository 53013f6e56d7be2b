from django.apps import AppConfig


class TrafficConfig(AppConfig):
    name = "controlplane.traffic"
    label = "traffic"

    def ready(self) -> None:
        """Lets ledgers of deployments know how long their requests are."""
        from controlplane.deployments.services import mean_request
        from controlplane.traffic import selectors

        mean_request.provide(selectors.mean_request_tokens)
