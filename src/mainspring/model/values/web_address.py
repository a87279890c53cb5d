"""Addresses that Mainspring sends requests to: those of pings and of webhooks. Their paths and queries often are
secrets, so errors never repeat an address, and screens and logs show its host only."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from ..errors import InvalidValue

LONGEST = 1_000
NOT_SHOWN = "(not shown)"

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:%\\]+)(:[0-9]*)?")
"""A name or an address, and a port. Python reads `[::1]elsewhere` as the host `::1`, others as another one."""


def web_address(field: str, value: object) -> str:
    """The address, if it can be requested.

    >>> web_address("url", "https://hc.example/abc")
    'https://hc.example/abc'
    """
    text = value if isinstance(value, str) and value.isascii() and value.isprintable() and " " not in value else ""
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and len(text) <= LONGEST
        fits = fits and parts.username is None and (parts.port is None or parts.port > 0)
        fits = fits and _HOST.fullmatch(parts.netloc) is not None
    except ValueError:
        fits = False
    if not fits:
        raise InvalidValue(
            field, NOT_SHOWN, "an address such as https://hc.example/abc (http or https), without user or password"
        )
    return text


def destination_of(url: str) -> str:
    """The host and port of an address, the same however they are written.

    >>> destination_of("https://HC.example./a"), destination_of("https://hc.example:0443/b")
    ('hc.example:443', 'hc.example:443')
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{(parts.hostname or '').rstrip('.')}:{port}"


def domain_of(host: str) -> str:
    """The last two labels of a name: as a rule, all names with the same ones have one owner. An address is its own.

    >>> domain_of("a1.checks.example"), domain_of("localhost"), domain_of("127.0.0.1"), domain_of("::1")
    ('checks.example', 'localhost', '127.0.0.1', '::1')
    """
    labels = host.split(".")
    return host if labels[-1].isdigit() else ".".join(labels[-2:])


def host_of(url: str) -> str:
    """What may be shown of an address.

    >>> host_of("https://hooks.example:8443/services/T0/B0/secret?key=1")
    'hooks.example:8443'
    """
    return urlsplit(url).netloc.rpartition("@")[2]
