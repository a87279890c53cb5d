"""One request to a URL that a job names: never into a private network unless that is allowed, never following a
redirect, and to the same IP address that was checked, so that the name cannot resolve to another one in between."""

from __future__ import annotations

import ipaddress
import socket
from typing import TypeAlias
from urllib.parse import urlsplit

from ...version import VERSION

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class NotAllowed(OSError):
    """The address is in a network that jobs must not reach."""


def ask(url: str, timeout: float, private: bool) -> int:
    """GET this URL and return the status; raises `OSError` on failure."""
    import http.client  # most applications send no pings and should not pay for the import

    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    plain = _connected(host, port, timeout, private)
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.sock = _secured(plain, host) if secure else plain
        path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        connection.request("GET", path, headers={"User-Agent": f"mainspring/{VERSION}", "Connection": "close"})
        return connection.getresponse().status
    except http.client.HTTPException as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
        plain.close()


def _connected(host: str, port: int, timeout: float, private: bool) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(where[0]).partition("%")[0] for _, _, _, _, where in found]
    if not private and not all(is_public(ipaddress.ip_address(address)) for address in addresses):
        raise NotAllowed(f"{host} leads to a private address; the setting private_urls would allow that")
    return socket.create_connection((addresses[0], port), timeout)


def _secured(plain: socket.socket, host: str) -> socket.socket:
    import ssl

    return ssl.create_default_context().wrap_socket(plain, server_hostname=host)


def is_public(address: IPAddress) -> bool:
    """Whether the address is public; an IPv4 address embedded in an IPv6 one is checked too.

    >>> is_public(ipaddress.ip_address("::ffff:127.0.0.1"))
    False
    """
    if isinstance(address, ipaddress.IPv6Address):
        inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64:
            inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if not all(one.is_global for one in inner if one is not None):
            return False
        if address.ipv4_mapped is not None:
            return True
    return address.is_global and not address.is_multicast
