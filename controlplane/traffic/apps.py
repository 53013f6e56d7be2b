from django.apps import AppConfig


class TrafficConfig(AppConfig):
    name = "controlplane.traffic"
    label = "traffic"
