"""Locks on a Redis or Valkey server: an optimisation for who has one already. Nothing else depends on it.

Each step is one Lua script, judged by the server's own clock. Whatever goes wrong fails closed: a lock that the server
did not confirm is not held, and the caller hears `LockUnavailable`.
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
from .client import Place


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
        self._place = Place(url)
        self._record = record
        self._left_alone: set[asyncio.Task[None]] = set()
        self.keys = [self._place.key(name) for name in ("locks", "ends", "tokens")]

    async def close(self) -> None:
        here = asyncio.get_running_loop()
        await asyncio.gather(*(task for task in self._left_alone if task.get_loop() is here))
        await self._place.close()

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
            raise self._unavailable(f"an answer that is none: {answer!r:.100}") from None

    async def _run(self, step: str, *arguments: object) -> Any:
        """While the driver connects it swallows a cancellation. So it works in a task of its own: a caller that is
        cancelled hears of it at once, and a lock that is taken nevertheless is released again."""
        asking = asyncio.create_task(self._ask(step, *arguments))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            self._left_alone.add(left := asyncio.create_task(self._let_go(asking, step, str(arguments[0]))))
            left.add_done_callback(self._left_alone.discard)
            raise

    async def _let_go(self, asking: asyncio.Task[Any], step: str, name: str) -> None:
        with suppress(LockUnavailable):
            answer = await asking
            if step == "take" and answer is not None:
                await self._ask("release", name, _flat(answer)[0], 0)

    async def _ask(self, step: str, *arguments: object) -> Any:
        script = self._place.client().register_script(self.now + lua("lock") + lua(step))
        from redis import RedisError

        try:
            return await script(keys=self.keys, args=[str(argument) for argument in arguments])
        except (RedisError, OSError) as error:
            raise self._unavailable(f"{type(error).__name__}: {error}") from error

    def _unavailable(self, error: str) -> LockUnavailable:
        return LockUnavailable(without_password(self._place.url), error)


def _flat(answer: Any) -> list[Any]:
    return list(answer) if isinstance(answer, Sequence) and not isinstance(answer, str) else [answer]
