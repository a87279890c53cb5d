"""Locks on a Redis or Valkey server, for applications that have one already. Nothing else depends on it.

Each step is one Lua script that uses the server's own clock. Errors fail closed: a lock that the server did not confirm
is not held, and the caller gets `LockUnavailable`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import Any

from ..model.errors import LockUnavailable
from ..model.store.messages import Audit, LockRow
from ..model.time.instants import seconds_to_micros
from ..model.values.database_url import without_password
from .client import RedisServer

SCRIPTS = ("all", "lock", "release", "renew", "take")


@cache
def lua(name: str) -> str:
    return resources.files(__package__).joinpath("lua", f"{name}.lua").read_text("utf-8")


class RedisLocks:
    """Implements `core.ports.LockBackend`.

    The query of `url` may contain `prefix`, which separates applications that share a server, and any option of the
    driver, such as `socket_timeout`. `record` stores the audit record of a released lock.
    """

    now = lua("now")  # tests replace the clock

    def __init__(self, url: str, record: Callable[[Audit], Awaitable[None]]) -> None:
        self._server = RedisServer(url)
        self._record = record
        for name in SCRIPTS:  # read at their first use, they would fail in a process that has no file left to open
            lua(name)
        self._abandoned: set[asyncio.Task[None]] = set()
        self.keys = [self._server.key(name) for name in ("locks", "ends", "tokens")]

    async def close(self) -> None:
        here = asyncio.get_running_loop()
        await asyncio.gather(*(task for task in self._abandoned if task.get_loop() is here))
        await self._server.close()

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

    async def locks(self, first: str = "", limit: int = 1_000) -> list[LockRow]:
        held = sorted(self._rows(_flat(await self._run("all", ""))), key=lambda row: row.name)
        return [row for row in held if row.name >= first][:limit]

    def _rows(self, answer: list[Any]) -> list[LockRow]:
        """Five values per lock. An unreadable answer confirms nothing."""
        try:
            parts = [answer[at : at + 5] for at in range(0, len(answer), 5)]
            return [
                LockRow(name=name, owner=owner, token=int(token), acquired=int(acquired), expires=int(expires))
                for name, token, acquired, expires, owner in parts
            ]
        except (TypeError, ValueError):
            raise self._unavailable(f"unexpected answer: {answer!r:.100}") from None

    async def _run(self, step: str, *arguments: object) -> Any:
        """Runs the script in a task of its own, because the driver swallows cancellations while it connects: a caller
        that is cancelled stops at once, and a lock that is taken nevertheless is released again."""
        script = asyncio.create_task(self._script(step, *arguments))
        try:
            return await asyncio.shield(script)
        except asyncio.CancelledError:
            self._abandoned.add(cleanup := asyncio.create_task(self._release_taken(script, step, str(arguments[0]))))
            cleanup.add_done_callback(self._abandoned.discard)
            raise

    async def _release_taken(self, script: asyncio.Task[Any], step: str, name: str) -> None:
        with suppress(LockUnavailable):
            answer = await script
            if step == "take" and answer is not None:
                await self._script("release", name, _flat(answer)[0], 0)

    async def _script(self, step: str, *arguments: object) -> Any:
        script = self._server.client().register_script(self.now + lua("lock") + lua(step))
        from redis import RedisError

        try:
            return await script(keys=self.keys, args=[str(argument) for argument in arguments])
        except (RedisError, OSError) as error:
            raise self._unavailable(f"{type(error).__name__}: {error}") from error

    def _unavailable(self, error: str) -> LockUnavailable:
        return LockUnavailable(without_password(self._server.url), error)


def _flat(answer: Any) -> list[Any]:
    return list(answer) if isinstance(answer, Sequence) and not isinstance(answer, str) else [answer]
