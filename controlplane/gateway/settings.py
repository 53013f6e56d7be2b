"""What the gateway reads from its environment, once, at its start."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from controlplane import env
from controlplane.gateway.sizes import SEQUENCES_MOST

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Worker:
    """What the parent of several processes tells each of them. `folder` holds their sockets and what they counted."""

    id: str
    slot: int
    listener: int  # descriptor of the listening socket that all share
    folder: Path


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Settings of one gateway process."""

    bind: str
    port: int
    home: Path
    tls_cert: str
    tls_key: str
    trusted_proxies: tuple[Network, ...]
    metrics_from: tuple[Network, ...]
    drain_s: int
    body_limit_bytes: int
    overload_status: int = 503
    sequences_most: int = SEQUENCES_MOST  # answers that a request may ask for: its prompts x its choices
    media_domains: tuple[str, ...] = ()  # where engines may fetch pictures, sounds and films from
    processes: int = 1
    address: str = ""  # under which gateways on other machines reach this one; empty: it is alone or has only siblings
    peer_port: int = 0  # of the first process; 0 = any free one
    worker: Worker | None = None

    @property
    def slot(self) -> int:
        """The number of this process among those of the same parent."""
        return 0 if self.worker is None else self.worker.slot

    @property
    def folder(self) -> Path:
        return self.home / "gateway"


def read_settings() -> GatewaySettings:
    """Returns the settings; raises SettingError naming the variable that can't be used."""
    cert, key = env.read_str("HEADWORKS_TLS_CERT", ""), env.read_str("HEADWORKS_TLS_KEY", "")
    if bool(cert) != bool(key):
        raise env.SettingError("HEADWORKS_TLS_CERT and HEADWORKS_TLS_KEY go together; set both or none.")
    return GatewaySettings(
        bind=env.read_str("HEADWORKS_BIND", "127.0.0.1"),
        port=env.read_int("HEADWORKS_GATEWAY_PORT", 8080, low=0, high=65535),
        home=env.headworks_home(),
        tls_cert=cert,
        tls_key=key,
        trusted_proxies=read_networks("HEADWORKS_TRUSTED_PROXIES", ()),
        metrics_from=read_networks("HEADWORKS_METRICS_FROM", ("127.0.0.0/8", "::1/128")),
        drain_s=env.read_int("HEADWORKS_GATEWAY_DRAIN_S", 10, low=0, high=3600),
        body_limit_bytes=env.read_int("HEADWORKS_GATEWAY_BODY_LIMIT_MIB", 8, low=1, high=1024) * MIB,
        sequences_most=env.read_int("HEADWORKS_GATEWAY_SEQUENCES_MOST", SEQUENCES_MOST, low=1, high=65_536),
        overload_status=read_overload_status(),
        media_domains=tuple(env.read_list("HEADWORKS_MEDIA_DOMAINS")),
        processes=env.read_int("HEADWORKS_GATEWAY_PROCESSES", 1, low=1, high=64),
        address=env.read_str("HEADWORKS_GATEWAY_ADDRESS", ""),
        peer_port=env.read_int("HEADWORKS_GATEWAY_PEER_PORT", 0, low=0, high=65535 - 64),
    )


def read_overload_status() -> int:
    """Returns the status of an answer to overload: 503, or 429 for clients that only then wait and try again."""
    status = env.read_int("HEADWORKS_GATEWAY_OVERLOAD_STATUS", 503, low=429, high=503)
    if status not in (429, 503):
        raise env.SettingError("HEADWORKS_GATEWAY_OVERLOAD_STATUS must be 503 or 429.")
    return status


def read_networks(name: str, default: tuple[str, ...]) -> tuple[Network, ...]:
    """Returns a comma-separated list of addresses and networks."""
    networks = []
    for text in env.read_list(name, default):
        try:
            networks.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            raise env.SettingError(f"{name}: {text!r} is neither an address nor a network.") from None
    return tuple(networks)
