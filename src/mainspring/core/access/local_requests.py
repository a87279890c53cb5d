"""Requests that need no credentials must not come from a web page that uses its visitor's browser.

Two ways in are closed. DNS rebinding: a foreign name that resolves to an address of this machine shows in the Host
header. Cross-site requests: browsers say where they come from in Origin and Sec-Fetch-Site, which other programs do not
send.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from .addresses import Headers, parse_address

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
Refusal: TypeAlias = tuple[str, str]
"""A code and a message."""

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\[\]:/@\s]+)(?::\d{1,5})?")
_ORIGIN = re.compile(r"https?://([^/\s]+)")
_REMEDY = "use localhost or 127.0.0.1, list the name in api_hosts, or configure authentication"
_UNKNOWN_HOST = ("unknown_host", f"this name of the host is not served without authentication; {_REMEDY}")
_CROSS_SITE = ("cross_site", "requests of other web sites are not served without authentication")


def foreign_page(
    method: str, headers: Headers, names: Sequence[str] = (), *, addresses: bool = False
) -> Refusal | None:
    """Why a request is refused that a foreign web page may have made a browser send; None if it is not.

    `names` are further names of this host. With `addresses`, any address is a name of it too: it takes a name to
    rebind one.
    """
    given = [(name.lower(), value.strip()) for name, value in headers]
    hosts, origins = _values(given, "host"), _values(given, "origin")
    known = LOCAL_NAMES | {name.lower() for name in names}
    name = _name(hosts[0]) if len(hosts) == 1 else None
    if name is None or not (name in known or (addresses and parse_address(name.strip("[]")) is not None)):
        return _UNKNOWN_HOST
    if any(not is_own_origin(origin, hosts[0], names) for origin in origins):
        return _CROSS_SITE
    sites, modes = _values(given, "sec-fetch-site"), _values(given, "sec-fetch-mode")
    follows_link = method.upper() in {"GET", "HEAD"} and modes == ["navigate"]
    if any(site.lower() not in {"same-origin", "none"} for site in sites) and not follows_link:
        return _CROSS_SITE
    return None


def is_own_origin(origin: str, host: str, names: Sequence[str]) -> bool:
    """Whether the page came from this server: same host and port, or a listed name. `null` never counts."""
    found = _ORIGIN.fullmatch(origin.lower())
    return found is not None and (found[1] == host.lower() or _name(found[1]) in {name.lower() for name in names})


def _values(headers: list[tuple[str, str]], name: str) -> list[str]:
    return [value for found, value in headers if found == name]


def _name(host: str) -> str | None:
    match = _HOST.fullmatch(host.lower())
    return match["name"] if match else None
