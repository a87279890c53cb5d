"""Without authentication, the server is only reachable from this machine (loopback mode).

A web page must not be able to use that mode through its visitor's browser: see `core.access.local_requests`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...config.security import SecuritySettings
from ...core.access.addresses import Headers, parse_address
from ...core.access.local_requests import foreign_page
from ...model.errors import ConfigurationError
from .principals import forbidden

UVICORN_OPTIONS = {"proxy_headers": False, "server_header": False}
"""uvicorn must not replace the peer's address by one from headers: `Guard` does that itself, by `trusted_proxies`."""


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
    refusal = foreign_page(method, headers, names)
    if refusal is not None:
        raise forbidden(*refusal)
