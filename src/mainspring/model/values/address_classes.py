"""Which IP addresses requests may go to. Only public unicast addresses pass; every other class has a name here.

The list is our own rather than `ipaddress.is_global`, whose answer differs between releases of Python. IPv6 is allowed
by class: the unicast space that is assigned (2000::/3) without its special blocks. An IPv4 address inside an IPv6 one
counts as itself where routers translate it (mapped, NAT64), and is refused in every other form.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TypeAlias

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

PUBLIC = "public"
METADATA = "the metadata service of a cloud"

_METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",  # nearly all of them
        "169.254.169.253",  # AWS: names
        "169.254.170.2",  # AWS: containers
        "169.254.170.23",  # AWS: pods
        "fd00:ec2::254",
        "fd00:ec2::253",
        "fd00:ec2::23",
        "fd20:ce::254",  # Google
        "fd00:c1::a9fe:a9fe",  # Oracle
        "fd00:a9fe:a9fe::1",  # Akamai
        "fd00:100::100:200",  # Alibaba
        "168.63.129.16",  # Azure: a public address that leads to the host
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle
        "169.254.0.23",  # Tencent
        "169.254.42.42",  # Scaleway
        "fd00:42::42",
        "fe80::a9fe:a9fe",  # OpenStack
    )
)

_IPV4 = [
    (ipaddress.IPv4Network(network), name)
    for network, name in (
        ("255.255.255.255/32", "broadcast"),
        ("0.0.0.0/8", "unspecified"),
        ("127.0.0.0/8", "loopback"),
        ("10.0.0.0/8", "private"),
        ("172.16.0.0/12", "private"),
        ("192.168.0.0/16", "private"),
        ("169.254.0.0/16", "link-local"),
        ("100.64.0.0/10", "shared by a provider (CGNAT)"),
        ("192.0.0.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("198.18.0.0/15", "benchmarking"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
]

_TRANSLATED = [ipaddress.IPv6Network(text) for text in ("::ffff:0:0/96", "64:ff9b::/96")]
"""Mapped addresses and NAT64: the last 32 bits are where the request really goes."""

_IPV6 = [
    (ipaddress.IPv6Network(network), name)
    for network, name in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::/96", "IPv4 inside IPv6 (compatible)"),
        ("::ffff:0:0:0/96", "IPv4 inside IPv6 (translated)"),
        ("64:ff9b:1::/48", "IPv4 inside IPv6 (NAT64, local use)"),
        ("2001::/32", "IPv4 inside IPv6 (Teredo)"),
        ("2002::/16", "IPv4 inside IPv6 (6to4)"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
        ("2001:2::/48", "benchmarking"),
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
        ("2001::/23", "reserved"),
    )
]
_ASSIGNED = ipaddress.IPv6Network("2000::/3")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
_LOW = 0xFFFF_FFFF


def address_class(address: IPAddress) -> str:
    """`PUBLIC`, or why the address is not.

    >>> address_class(ipaddress.ip_address("::ffff:127.0.0.1"))
    'loopback'
    >>> address_class(ipaddress.ip_address("93.184.216.34"))
    'public'
    """
    if address in _METADATA:
        return METADATA
    if isinstance(address, ipaddress.IPv4Address):
        return next((name for network, name in _IPV4 if address in network), PUBLIC)
    plain = ipaddress.IPv6Address(int(address))  # without the zone of fe80::1%eth0
    if plain in _METADATA:
        return METADATA
    inner = ipaddress.IPv4Address(int(plain) & _LOW)
    if any(plain in network for network in _TRANSLATED):
        return address_class(inner)
    for network, name in _IPV6:
        if plain in network:
            hidden = {inner, plain.sixtofour, *(plain.teredo or ()), *_in_prefixes(plain)}
            return METADATA if hidden & _METADATA else name
    if plain not in _ASSIGNED:
        return "reserved"
    if int(plain) >> 32 & _LOW in _ISATAP:
        return METADATA if inner in _METADATA else "IPv4 inside IPv6 (ISATAP)"
    return PUBLIC


def _in_prefixes(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that it holds behind prefixes of 48, 56 and 64 bits, by RFC 6052: byte 8 is left out."""
    digits = address.packed[:8] + address.packed[9:]
    return [ipaddress.IPv4Address(digits[at : at + 4]) for at in (6, 7, 8)]


def written_address(host: str) -> IPAddress | None:
    """The address that a host stands for without a look-up, in every spelling that resolvers accept.

    >>> written_address("127.1"), written_address("0x7f000001"), written_address("jobs.localhost")
    (IPv4Address('127.0.0.1'), IPv4Address('127.0.0.1'), IPv4Address('127.0.0.1'))
    >>> written_address("hooks.example")
    """
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(name))
    except (OSError, ValueError):
        return None


def may_reach(address: IPAddress, private: bool) -> bool:
    """`private` is the setting `private_urls`. Metadata services hand out credentials, so nothing opens those."""
    found = address_class(address)
    return found == PUBLIC or (private and found != METADATA)
