"""Enqueues that arrive while a statement is under way go out together in the next one: one wait for the disk.

Only fresh rows are batched. A row with a unique key may meet an open transaction that is about to take that key, and
has to wait for its end; the other callers of the batch must not. A statement that meets such a key gives up at once,
and each of its callers goes on alone; while one waits for a key, others that ask for the same key go alone from the
start.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from itertools import accumulate, pairwise
from typing import Any

from ....core.ports import Topic
from ....model.execution import ExecutionRow
from ....model.store.batches import merged
from ....model.store.messages import Added
from ..database import Database, KeyHeld
from ..wakeups import Announcer
from .insert import insert_fresh

ROWS_AT_ONCE = 2_000
BULK = 1_000  # so many rows are worth a statement of their own
STATEMENTS_AT_ONCE = 1  # of batched enqueues: a second one would only make both smaller
PARTS_AT_ONCE = 2  # of a bulk insert: one is prepared here while the server inserts the other


class _Waiter:
    """One caller: its rows, and the future of its answer."""

    def __init__(self, executions: Sequence[ExecutionRow]) -> None:
        self.executions = executions
        self.answer: asyncio.Future[list[Added]] = asyncio.get_running_loop().create_future()


class InsertBatcher:
    def __init__(self, db: Database, announcer: Announcer) -> None:
        self._db, self._announcer = db, announcer
        self._waiting: list[_Waiter] = []
        self._under_way = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: Counter[str] = Counter()  # keys that callers of this process wait for

    async def insert(self, executions: Sequence[ExecutionRow]) -> list[Added]:
        """Insert fresh rows; returns after their commit."""
        if len(executions) >= BULK:
            return await self._insert_many(executions)
        if self._held and any(row.unique_key in self._held for row in executions):
            return await self._insert_alone(executions)
        if self._under_way:
            wait = _Waiter(executions)
            self._waiting.append(wait)
            self._go_on()
            return await wait.answer
        self._under_way += 1
        try:
            return await self._insert(executions)
        except KeyHeld:
            pass
        finally:
            self._under_way -= 1
            self._go_on()
        return await self._insert_alone(executions)

    async def _insert(self, executions: Sequence[ExecutionRow], *, patient: bool = False) -> list[Added]:
        news = self._announcer.leading(Topic.WORK)
        added = await insert_fresh(self._db, executions, news=news, patient=patient)
        if news is None:
            self._announcer.announce({Topic.WORK})
        return added

    async def _insert_many(self, executions: Sequence[ExecutionRow]) -> list[Added]:
        """In parts, each with a commit of its own. The next part is prepared while the server inserts the one before,
        unless rows have keys, which are given in the order of the rows."""
        if len(executions) <= ROWS_AT_ONCE:
            return await self._insert(executions, patient=True)
        keyed = any(row.unique_key is not None for row in executions)
        slots = asyncio.Semaphore(1 if keyed else PARTS_AT_ONCE)

        async def insert_part(part: Sequence[ExecutionRow]) -> list[Added]:
            try:
                return await self._insert(part, patient=True)
            finally:
                slots.release()

        parts: list[asyncio.Task[list[Added]]] = []
        try:
            async with asyncio.TaskGroup() as group:
                for start in range(0, len(executions), ROWS_AT_ONCE):
                    await slots.acquire()
                    parts.append(group.create_task(insert_part(executions[start : start + ROWS_AT_ONCE])))
                    await asyncio.sleep(0)  # it is sent before the next one is prepared
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [added for part in parts for added in part.result()]

    async def _insert_alone(self, executions: Sequence[ExecutionRow]) -> list[Added]:
        """Waits until transactions that are about to take one of the keys have ended."""
        keys = [row.unique_key for row in executions if row.unique_key is not None]
        self._held.update(keys)
        try:
            return await self._insert(executions, patient=True)
        finally:
            self._held.subtract(keys)
            self._held += Counter()  # drops keys that nobody waits for any more

    def _go_on(self) -> None:
        if self._waiting and self._under_way < STATEMENTS_AT_ONCE:
            self._under_way += 1
            self._start(self._send_waiting())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="mainspring-enqueue")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                await self._send(self._next())
                await asyncio.sleep(0)  # callers just answered may enqueue more
        finally:
            self._under_way -= 1

    def _next(self) -> list[_Waiter]:
        """Callers that wait, up to a number of rows; at least one."""
        totals = accumulate(len(wait.executions) for wait in self._waiting)
        count = max(sum(total <= ROWS_AT_ONCE for total in totals), 1)
        chosen, self._waiting = self._waiting[:count], self._waiting[count:]
        return chosen

    async def _send(self, waits: list[_Waiter]) -> None:
        """If the batch fails, each caller goes alone, so that none fails because of another."""
        try:
            added = await self._insert(merged([wait.executions for wait in waits]))
        except Exception:
            for wait in waits:
                self._start(self._send_alone(wait))
            return
        ends = accumulate((len(wait.executions) for wait in waits), initial=0)
        for wait, (first, last) in zip(waits, pairwise(ends), strict=True):
            if not wait.answer.done():  # cancelled meanwhile
                wait.answer.set_result(added[first:last])

    async def _send_alone(self, wait: _Waiter) -> None:
        try:
            added = await self._insert_alone(wait.executions)
        except Exception as error:
            if not wait.answer.done():
                wait.answer.set_exception(error)
        else:
            if not wait.answer.done():
                wait.answer.set_result(added)
