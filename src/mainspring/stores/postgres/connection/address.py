"""Our own options in an address, beyond those that libpq reads.

>>> parse_address("postgresql://localhost/app?schema=jobs&pool_size=4").schema
'jobs'
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from ....model.errors import InvalidValue
from ....model.values.database_url import without_password
from ....model.values.reading import duration, whole
from ....model.values.url_secrets import without_secrets_of
from ..statements import DEFAULT_SCHEMA, checked_schema

_OURS = ("schema", "listen_url", "pool_size", "statement_timeout")
_ALIVE: dict[str, Any] = {
    "application_name": "mainspring",
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds until a peer that does not answer is given up
}


class Address(msgspec.Struct, frozen=True):
    """Where to connect, and how. `listen` differs from `main` when that one leads through a pooler."""

    main: dict[str, Any]
    listen: dict[str, Any]
    schema: str = DEFAULT_SCHEMA
    pool_size: int = 10
    statement_timeout: float = 60.0
    name: str = "PostgreSQL"


def parse_address(url: str, schema: str | None = None, listen_url: str | None = None) -> Address:
    """Our own options are taken out of the query; the driver gets the rest unchanged."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    ours = {name: value for name, value in query if name in _OURS}
    rest = urlencode([(name, value) for name, value in query if name not in _OURS], quote_via=quote)
    plain = urlunsplit((parts.scheme, parts.netloc, parts.path, rest, ""))
    main = connection_options(plain)
    listen = listen_url or ours.get("listen_url")
    return Address(
        main=main,
        listen=main if listen is None else connection_options(listen),
        schema=checked_schema(schema or ours.get("schema", DEFAULT_SCHEMA)),
        pool_size=_pool_size(ours.get("pool_size", 10)),
        statement_timeout=duration("statement_timeout", _number(ours.get("statement_timeout", 60.0))),
        name=without_password(plain),
    )


def connection_options(conninfo: str) -> dict[str, Any]:
    """The parameters of a connection, with our defaults."""
    try:
        return with_defaults(conninfo_to_dict(conninfo))
    except ProgrammingError as error:
        raise InvalidValue(
            "database_url",
            without_password(conninfo),
            "an address such as postgresql://user@host/name",
            without_secrets_of(conninfo, str(error).strip()),
        ) from None


def with_defaults(options: dict[str, Any]) -> dict[str, Any]:
    """With settings that detect a silent peer within seconds, unless the address sets its own."""
    return _ALIVE | {name: value for name, value in options.items() if value is not None}


def _pool_size(value: Any) -> int:
    number = int(value) if str(value).isdigit() else value
    return whole("pool_size", number, 1, 1000)


def _number(value: Any) -> Any:
    try:
        return float(value)
    except ValueError:
        return value
