from django.apps import AppConfig


class TrafficConfig(AppConfig):
    name = "controlplane.traffic"
    label = "traffic"

    def ready(self) -> None:
        """Lets routing documents carry the rules of traffic, the controller hear of ladders, quotas and gateways, and
        ledgers know how long requests are."""
        from controlplane.deployments.controller import rules
        from controlplane.deployments.services import mean_request
        from controlplane.traffic import routed, selectors
        from controlplane.traffic.services import gateway_watch, ladder_news, quota_use

        rules.register(routed.add_rules)
        rules.register_round(ladder_news.take_over)
        rules.register_round(quota_use.restore)
        rules.register_round(gateway_watch.look)
        mean_request.provide(selectors.mean_request_tokens)
