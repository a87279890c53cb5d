"""Clients of a Redis or Valkey server. The driver is imported when it is first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl, urlencode

from ..model.errors import ConfigurationError, StoreUnavailable
from ..model.values.database_url import without_password
from ..model.values.url_secrets import without_secrets_of

if TYPE_CHECKING:
    from redis.asyncio import Redis

PREFIX = "mainspring"
TIMEOUT = 2.0
CONNECTIONS = 8

CloseClient: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class RedisServer:
    """A server, and our keys there. Each event loop has a client of its own, because connections belong to the loop
    they were made on."""

    def __init__(self, url: str) -> None:
        self.url, self._prefix = split_prefix(url)
        self._clients: dict[asyncio.AbstractEventLoop, Redis] = {}

    def key(self, name: str) -> str:
        """All keys have the same hash tag, so that a proxy that spreads keys over servers keeps ours together, as
        scripts need them."""
        return f"{{{self._prefix}}}:{name}"

    def client(self) -> Redis:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients = {known: client for known, client in self._clients.items() if not known.is_closed()}
            self._clients[loop] = connect(self.url)
        return self._clients[loop]

    async def check(self) -> None:
        """Raise `StoreUnavailable` if the server does not answer, and `ConfigurationError` if it refuses us."""
        from redis import AuthenticationError, RedisError
        from redis import ConnectionError as Unreachable
        from redis import TimeoutError as Unanswered

        name = without_password(self.url)

        def said(error: Exception) -> str:
            return without_secrets_of(self.url, str(error))

        try:
            await self.client().ping()
        except AuthenticationError as error:
            raise ConfigurationError(
                f"redis_url: {name}: {said(error)}; check user and password in the address"
            ) from error
        except (Unreachable, Unanswered, OSError) as error:
            raise StoreUnavailable(f"{name} cannot be reached: {said(error)}") from error
        except RedisError as error:
            raise ConfigurationError(f"redis_url: {name}: {said(error)}") from error

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        await on_own_loops({loop: client.aclose for loop, client in clients.items()})


async def on_own_loops(closings: Mapping[asyncio.AbstractEventLoop, CloseClient]) -> None:
    """Run each closing on the event loop that it belongs to, unless that loop has ended."""
    for loop, close in closings.items():
        if loop is asyncio.get_running_loop():
            await close()
        elif loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(close(), loop))


def connect(url: str) -> Redis:
    """A client that connects when first used and never repeats a command: a script may have run without an answer."""
    try:
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError:
        raise ConfigurationError("redis_url needs the package redis: pip install 'mainspring[redis]'") from None
    scheme, rest = url.split("://", 1)
    pool = BlockingConnectionPool.from_url(
        f"{scheme.replace('valkey', 'redis')}://{rest}",
        decode_responses=True,
        max_connections=CONNECTIONS,
        timeout=TIMEOUT,
        socket_timeout=TIMEOUT,
        socket_connect_timeout=TIMEOUT,
        retry=Retry(NoBackoff(), 0),
    )
    return Redis.from_pool(pool)


def split_prefix(url: str) -> tuple[str, str]:
    """The address for the driver, and the prefix of our keys.

    >>> split_prefix("redis://localhost/1?prefix=shop&socket_timeout=1")
    ('redis://localhost/1?socket_timeout=1', 'shop')
    """
    address, _, query = url.partition("?")
    options = dict(parse_qsl(query))
    prefix = options.pop("prefix", PREFIX)
    return f"{address}?{urlencode(options)}" if options else address, prefix
