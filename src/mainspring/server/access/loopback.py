"""Without authentication, the server is only reachable from this machine (loopback mode).

A web page must not be able to use that mode through its visitor's browser. Two ways in are closed. DNS rebinding: a
foreign name that resolves to 127.0.0.1 shows in the Host header. Cross-site requests: browsers say where they come from
in Origin and Sec-Fetch-Site, which other programs do not send.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from ...config.security import SecuritySettings
from ...model.errors import ConfigurationError
from .addresses import Headers, parse_address
from .principals import forbidden

UVICORN_OPTIONS = {"proxy_headers": False, "server_header": False}
"""uvicorn must not replace the peer's address by one from headers: `Guard` does that itself, by `trusted_proxies`."""
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\[\]:/@\s]+)(?::\d{1,5})?")


def may_listen(host: str, settings: SecuritySettings) -> None:
    """Refuse to listen where other machines can connect while no authentication is configured. A name other than
    localhost may resolve to any address, so it is refused too."""
    if settings.authenticates or is_loopback(host):
        return
    raise ConfigurationError(
        f"host {host!r} can be reached from other machines, and no authentication is configured; "
        "set api_tokens=true (MAINSPRING_API_TOKENS) and make a token with `mainspring token create`, "
        "or set a key for JWTs (jwt_secret, jwt_key_file or jwt_jwks_file), or listen on 127.0.0.1"
    )


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("127.0.0.1"), is_loopback("[::1]"), is_loopback("0.0.0.0"), is_loopback("")
    (True, True, False, False)
    """
    address = parse_address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def check_browser(method: str, headers: Headers, names: Sequence[str] = ()) -> None:
    """Refuse requests that a foreign web page may have made a browser send. `names` are further names of this host."""
    given = [(name.lower(), value.strip()) for name, value in headers]
    hosts, origins = _values(given, "host"), _values(given, "origin")
    known = LOCAL_NAMES | {name.lower() for name in names}
    if len(hosts) != 1 or _name(hosts[0]) not in known:
        remedy = "use localhost or 127.0.0.1, list the name in api_hosts, or configure authentication"
        raise forbidden("unknown_host", f"this name of the host is not served without authentication; {remedy}")
    if any(not is_own_origin(origin, hosts[0], names) for origin in origins):
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


def is_own_origin(origin: str, host: str, names: Sequence[str]) -> bool:
    """Whether the page came from this server: same host and port, or a listed name. `null` never counts."""
    try:
        netloc = urlsplit(origin.lower()).netloc
    except ValueError:
        return False
    return netloc == host.lower() or _name(netloc) in {name.lower() for name in names}
