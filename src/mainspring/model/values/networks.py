"""Networks as settings write them: CIDR blocks and single addresses."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TypeAlias

from ..errors import InvalidValue

Network: TypeAlias = IPv4Network | IPv6Network


def network(field: str, text: object) -> Network:
    """A network in CIDR form, or one address. One of IPv4 written as IPv6 is the IPv4 one.

    >>> network("sys_allow", "10.0.0.0/8"), network("sys_allow", "::ffff:10.0.0.0/104")
    (IPv4Network('10.0.0.0/8'), IPv4Network('10.0.0.0/8'))
    """
    allowed = "an address or network such as 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32"
    if not isinstance(text, str):
        raise InvalidValue(field, text, allowed)
    try:
        found = ip_network(text.strip())
    except ValueError:
        raise InvalidValue(field, text, allowed, _remedy(text)) from None
    mapped = found.network_address.ipv4_mapped if isinstance(found, IPv6Network) else None
    if mapped is not None and found.prefixlen >= 96:
        return IPv4Network((mapped, found.prefixlen - 96))
    return found


def _remedy(text: str) -> str:
    try:
        return f"Did you mean {ip_network(text.strip(), strict=False)}?"
    except ValueError:
        return ""
