"""The loopback mode asks for no credentials, so a web page must not be able to use it through its visitor's browser.

Two ways in are closed. DNS rebinding: a foreign name that resolves to 127.0.0.1 shows in the Host header. Requests
across sites: browsers say where they come from in Origin and Sec-Fetch-Site. Programs send neither of these two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from .addresses import Headers
from .refusals import forbidden

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\[\]:/@\s]+)(?::\d{1,5})?")


def check_browser(method: str, headers: Headers, names: Sequence[str] = ()) -> None:
    """Refuse what a page of somebody else may have made a browser send. `names` are further names of this host."""
    given = [(name.lower(), value.strip()) for name, value in headers]
    hosts, origins = _values(given, "host"), _values(given, "origin")
    known = LOCAL_NAMES | {name.lower() for name in names}
    if len(hosts) != 1 or _name(hosts[0]) not in known:
        remedy = "use localhost or 127.0.0.1, list the name in api_hosts, or configure authentication"
        raise forbidden("unknown_host", f"this name of the host is not served without authentication; {remedy}")
    if any(not _is_own(origin, hosts[0], names) for origin in origins):
        raise forbidden("cross_site", "requests of other web sites are not served without authentication")
    sites, modes = _values(given, "sec-fetch-site"), _values(given, "sec-fetch-mode")
    follows_link = method.upper() in {"GET", "HEAD"} and modes == ["navigate"]
    if any(site.lower() not in {"same-origin", "none"} for site in sites) and not follows_link:
        raise forbidden("cross_site", "requests of other web sites are not served without authentication")


def _values(headers: list[tuple[str, str]], name: str) -> list[str]:
    return [value for found, value in headers if found == name]


def _name(host: str) -> str | None:
    match = _HOST.fullmatch(host.lower())
    return match["name"] if match else None


def _is_own(origin: str, host: str, names: Sequence[str]) -> bool:
    """The page came from here: same host and port, or a listed name. `null` is nobody's."""
    try:
        netloc = urlsplit(origin.lower()).netloc
    except ValueError:
        return False
    return netloc == host.lower() or _name(netloc) in {name.lower() for name in names}
