"""Databases of other schedulers, which are only read."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.errors import ConfigurationError, InvalidValue, StoreError
from ...model.values.database_url import REDIS_SCHEMES, parse_url, without_password
from ...model.values.url_secrets import without_secrets_of

if TYPE_CHECKING:
    from redis import Redis

_DRIVER = re.compile(r"^(\w+)\+\w+://")


def rows_of_query(url: str, query: str) -> list[dict[str, Any]]:
    """The rows of a query, which can only read. The address may name a driver, as SQLAlchemy's do."""
    plain = _DRIVER.sub(r"\1://", url)
    scheme = plain.partition("://")[0].lower()
    if scheme == "sqlite":
        return _from_sqlite(parse_url(plain, "--from").path, query)
    if scheme in ("postgresql", "postgres"):
        return _from_postgres(plain, query)
    allowed = "sqlite:///file.db or postgresql://host/name"
    raise InvalidValue("--from", without_password(url), allowed, "Of other databases, export the rows: cron-rows FILE")


def _from_sqlite(path: str, query: str) -> list[dict[str, Any]]:
    try:
        with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query)]
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from error


def _from_postgres(url: str, query: str) -> list[dict[str, Any]]:
    import psycopg
    from psycopg.rows import dict_row

    try:
        with psycopg.connect(url, row_factory=dict_row) as connection:
            connection.read_only = True
            return connection.execute(query.encode()).fetchall()
    except psycopg.Error as error:
        raise StoreError(f"{without_password(url)}: {without_secrets_of(url, ' '.join(str(error).split()))}") from error


def is_redis(url: str) -> bool:
    return url.partition("://")[0].lower() in REDIS_SCHEMES


@contextmanager
def redis_client(url: str) -> Iterator[Redis]:
    """A client of a Redis or Valkey server; what goes wrong there is one line with its address."""
    try:
        from redis import Redis, RedisError
    except ImportError:
        raise ConfigurationError("--from redis://... needs the extra redis: pip install 'mainspring[redis]'") from None
    if not is_redis(url):
        raise InvalidValue("--from", without_password(url), "the address of a Redis server", "redis://host:6379/0")
    address = re.sub(r"^valkey(s?)://", lambda found: f"redis{found[1]}://", url)
    try:
        with Redis.from_url(address, socket_connect_timeout=10, socket_timeout=30) as client:
            yield client
    except (RedisError, OSError, ValueError) as error:
        raise StoreError(f"{without_password(url)}: {without_secrets_of(url, str(error))}") from error
