"""Locks on a Redis or Valkey server: an optimisation for who has one already. Nothing else depends on it.

Each step is one Lua script, judged by the server's own clock. Whatever goes wrong fails closed: a lock that the server
did not confirm is not held, and the caller hears `LockUnavailable`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from ..model.address import without_password
from ..model.changes import Audit, LockRow
from ..model.errors import ConfigurationError, LockUnavailable
from ..model.instants import seconds_to_micros

if TYPE_CHECKING:
    from redis.asyncio import Redis

PREFIX = "mainspring"
TIMEOUT = 2.0
CONNECTIONS = 8


@cache
def lua(name: str) -> str:
    return resources.files(__package__).joinpath("lua", f"{name}.lua").read_text("utf-8")


class RedisLocks:
    """Fulfils `core.ports.LockBackend`.

    `url` may carry `prefix`, which keeps applications that share a server apart, and any option of the driver, such as
    `socket_timeout`. `record` stores the audit record of a lock that was released.
    """

    now = lua("now")  # tests set a clock of their own

    def __init__(self, url: str, record: Callable[[Audit], Awaitable[None]]) -> None:
        self._url, prefix = split_prefix(url)
        # One hash tag for all keys: on a cluster they live on one node, as a script needs them.
        self._keys = [f"{{{prefix}}}:{name}" for name in ("locks", "ends", "tokens")]
        self._record = record
        self._place = without_password(self._url)
        self._clients: dict[asyncio.AbstractEventLoop, Redis] = {}

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for loop, client in clients.items():
            await _closed(loop, client)

    async def lock_take(self, name: str, owner: str, ttl: float) -> LockRow | None:
        answer = await self._run("take", name, owner, seconds_to_micros(ttl))
        if answer is None:
            return None
        [row] = self._rows([name, *_flat(answer), owner])
        return row

    async def lock_renew(self, name: str, token: int, ttl: float) -> bool:
        return bool(await self._run("renew", name, token, seconds_to_micros(ttl)) == 1)

    async def lock_release(
        self, name: str, token: int | None, keep_for: float = 0.0, audit: Audit | None = None
    ) -> bool:
        held = "" if token is None else token
        released = await self._run("release", name, held, seconds_to_micros(keep_for)) == 1
        if released and audit is not None:
            await self._record(audit)
        return bool(released)

    async def locks(self) -> list[LockRow]:
        return sorted(self._rows(_flat(await self._run("all", ""))), key=lambda row: row.name)

    def _rows(self, answer: list[Any]) -> list[LockRow]:
        """Five values to a lock. What cannot be read is no confirmation."""
        try:
            parts = [answer[at : at + 5] for at in range(0, len(answer), 5)]
            return [
                LockRow(name=name, owner=owner, token=int(token), acquired=int(acquired), expires=int(expires))
                for name, token, acquired, expires, owner in parts
            ]
        except (TypeError, ValueError):
            raise LockUnavailable(self._place, f"an answer that is none: {answer!r:.100}") from None

    async def _run(self, step: str, *arguments: object) -> Any:
        from redis import RedisError

        script = self._client().register_script(self.now + lua("lock") + lua(step))
        try:
            return await script(keys=self._keys, args=[str(argument) for argument in arguments])
        except (RedisError, OSError) as error:
            raise LockUnavailable(self._place, f"{type(error).__name__}: {error}") from error

    def _client(self) -> Redis:
        """Connections belong to the event loop they were made on: each has its own."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients = {known: client for known, client in self._clients.items() if not known.is_closed()}
            self._clients[loop] = connect(self._url)
        return self._clients[loop]


def connect(url: str) -> Redis:
    """A client that connects when first used and never tries twice: a script may have run though no answer came."""
    try:
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError:
        raise ConfigurationError("locks on Redis need the package redis: pip install 'mainspring[redis]'") from None
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
    """The address for the driver, and the prefix of the keys.

    >>> split_prefix("redis://localhost/1?prefix=shop&socket_timeout=1")
    ('redis://localhost/1?socket_timeout=1', 'shop')
    """
    place, _, query = url.partition("?")
    options = dict(parse_qsl(query))
    prefix = options.pop("prefix", PREFIX)
    return f"{place}?{urlencode(options)}" if options else place, prefix


def _flat(answer: Any) -> list[Any]:
    return list(answer) if isinstance(answer, Sequence) and not isinstance(answer, str) else [answer]


async def _closed(loop: asyncio.AbstractEventLoop, client: Redis) -> None:
    """Close a client on the loop it belongs to, if that still runs."""
    if loop is asyncio.get_running_loop():
        await client.aclose()
    elif loop.is_running():
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(client.aclose(), loop))
