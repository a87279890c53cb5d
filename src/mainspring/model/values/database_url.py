"""Addresses of databases: checked, with errors that never show a password.

>>> parse_url("sqlite:///data/jobs.db").path
'data/jobs.db'
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from ..errors import InvalidValue, nearest
from .url_secrets import without_password as without_password

SCHEMES = {
    "sqlite": "sqlite",
    "memory": "memory",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mongodb": "mongodb",
    "mongodb+srv": "mongodb",
}
REDIS_SCHEMES = ("redis", "rediss", "valkey", "valkeys", "unix")
_SHOWN_SCHEMES = "sqlite:///file.db, postgresql://host/name, mongodb://host/name or memory://"
_SQLITE_PATHS = "sqlite:///jobs.db for a relative path, sqlite:////var/lib/jobs.db for an absolute one"


class DatabaseUrl(msgspec.Struct, frozen=True):
    """A checked address. `path` is the file of SQLite; the other schemes are connected to by `url` as it is."""

    scheme: str
    url: str
    path: str = ""

    def __repr__(self) -> str:
        return f"DatabaseUrl({without_password(self.url)!r})"


def parse_url(url: Any, field: str = "database_url") -> DatabaseUrl:
    """Check a database address."""
    if not isinstance(url, str) or "://" not in url:
        raise _refused(field, url, _SHOWN_SCHEMES, "A SQLite file is sqlite:/// and its path")
    written = url.partition("://")[0].lower()
    scheme = SCHEMES.get(written)
    if scheme is None:
        near = nearest(written.partition("+")[0], SCHEMES)
        raise _refused(field, url, _SHOWN_SCHEMES, f"Did you mean {SCHEMES[near]}://?" if near else "")
    if scheme == "sqlite":
        return DatabaseUrl(scheme, url, _sqlite_path(field, url))
    if scheme == "memory" and url != "memory://":
        raise _refused(field, url, "memory:// and nothing after it")
    _check_port(field, url)
    return DatabaseUrl(scheme, url)


def redis_url(url: Any, field: str = "redis_url") -> str:
    """Check the address of a Redis or Valkey server; the driver reads the rest of it.

    >>> redis_url("redis://localhost:6379/0?prefix=shop")
    'redis://localhost:6379/0?prefix=shop'
    """
    if not isinstance(url, str) or url.partition("://")[0].lower() not in REDIS_SCHEMES or not url.partition("://")[2]:
        raise _refused(field, url, "redis://host:port/0, rediss:// for TLS, or unix:///path/to/socket")
    _check_port(field, url)
    return url


def smtp_url(url: Any, field: str = "smtp_url") -> str:
    """Check the address of a mail server.

    >>> smtp_url("smtp://localhost:2525?from=jobs@example.com")
    'smtp://localhost:2525?from=jobs@example.com'
    """
    if not isinstance(url, str) or not url.startswith(("smtp://", "smtps://")) or not url.partition("://")[2]:
        raise _refused(field, url, "smtp://user:password@host:587?from=jobs@example.com, or smtps:// for TLS")
    _check_port(field, url)
    return url


def proxy_url(url: Any, field: str = "egress_proxy") -> str:
    """Check the address of an HTTP proxy.

    >>> proxy_url("http://user:password@proxy.internal:3128")
    'http://user:password@proxy.internal:3128'
    """
    text = url if isinstance(url, str) and url.isascii() and url.isprintable() else ""
    try:
        parts = urlsplit(text)
        fits = parts.scheme == "http" and bool(parts.hostname) and bool(parts.port) and parts.path in ("", "/")
        fits = fits and not parts.query and not parts.fragment and " " not in text
    except ValueError:
        fits = False
    if not fits:
        remedy = "Write special characters of the password as %40 and so on"
        raise _refused(field, url, "http://proxy.internal:3128 or http://user:password@proxy.internal:3128", remedy)
    return text


def _sqlite_path(field: str, url: str) -> str:
    rest = url.partition("://")[2]
    path = unquote(rest[1:])
    if not rest.startswith("/") or not path or path.endswith("/") or "\0" in path:
        raise _refused(field, url, _SQLITE_PATHS)
    if "?" in rest or "#" in rest:
        raise _refused(field, url, "a path without ? or #")
    if path == ":memory:":
        raise _refused(field, url, "a file", "For a store without a file use memory://")
    return path


def _check_port(field: str, url: str) -> None:
    """Lists of hosts, as MongoDB and libpq take them, are left to the driver."""
    host = url.rpartition("@")[2]
    try:
        _ = None if "," in host else urlsplit(url).port
    except ValueError:
        raise _refused(
            field, url, "a port from 0 to 65535, and special characters of the password as %40 and so on"
        ) from None


def _refused(field: str, url: Any, allowed: str, remedy: str = "") -> InvalidValue:
    return InvalidValue(field, without_password(url) if isinstance(url, str) else url, allowed, remedy)
