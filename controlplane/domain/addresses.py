"""Addresses that nothing of Headworks connects to because an operator named them.

Operators may name any endpoint, also inside the own network; that is what external deployments are for. What no model
is ever served at are link-local addresses and the like, where clouds hand out the credentials of the machine.
"""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# credentials of a machine outside the link-local ranges: AWS over IPv6, Alibaba Cloud, Oracle Cloud
_METADATA = frozenset(ipaddress.ip_address(text) for text in ("fd00:ec2::254", "100.100.100.200", "192.0.0.192"))
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_forbidden(text: str) -> bool:
    """Returns whether an IP address may not be connected to; what is no IP address (a name) is not forbidden.

    IPv4 addresses in the clothes of IPv6 count as what they are.
    """
    try:
        address = _plain(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return False
    return address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA


def _plain(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
