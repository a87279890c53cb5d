"""Where the server may listen, and how it has to be started so that addresses can be believed."""

from __future__ import annotations

from ...config.security import SecuritySettings
from ...model.errors import ConfigurationError
from .addresses import parse_address

UVICORN_OPTIONS = {"proxy_headers": False, "server_header": False}
"""uvicorn must not rewrite the peer's address by headers: `Guard` does that itself, by `trusted_proxies`."""


def may_listen(host: str, settings: SecuritySettings) -> None:
    """Refuse to be reached from other machines while nobody has to log in. A name other than localhost may resolve to
    anything, so it is refused too."""
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
