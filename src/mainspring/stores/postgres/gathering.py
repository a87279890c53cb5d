"""Enqueues that arrive while another one is on its way go out together: one statement, one wait for the disk.

Only rows that ask for no key are gathered. A key may be held by somebody's open transaction, and whoever asks for it
has to wait for that; strangers must not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import accumulate, pairwise

from ...model.changes import Added
from ...model.execution import Execution
from .adding import add
from .database import Database

ROWS_AT_ONCE = 1_000


class _Wait:
    """One caller: its rows, and where it hears what became of them."""

    def __init__(self, executions: Sequence[Execution]) -> None:
        self.executions = executions
        self.answer: asyncio.Future[list[Added]] = asyncio.get_running_loop().create_future()


class Gatherer:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: list[_Wait] = []
        self._busy = False
        self._task: asyncio.Task[None] | None = None

    async def add(self, executions: Sequence[Execution]) -> list[Added]:
        """Returns after the commit that holds these rows."""
        if self._busy:
            wait = _Wait(executions)
            self._waiting.append(wait)
            return await wait.answer
        self._busy = True
        try:
            return await add(self._db, executions)
        finally:
            self._busy = False
            self._go_on()

    def _go_on(self) -> None:
        if self._waiting:
            self._busy = True
            self._task = asyncio.create_task(self._send_waiting(), name="mainspring-enqueue")

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                await self._send(self._next())
        finally:
            self._busy = False

    def _next(self) -> list[_Wait]:
        """Whoever waits, up to a number of rows; at least one."""
        totals = accumulate(len(wait.executions) for wait in self._waiting)
        count = max(sum(total <= ROWS_AT_ONCE for total in totals), 1)
        chosen, self._waiting = self._waiting[:count], self._waiting[count:]
        return chosen

    async def _send(self, waits: list[_Wait]) -> None:
        try:
            added = await add(self._db, [execution for wait in waits for execution in wait.executions])
        except Exception as error:
            await self._send_each(waits, error)
            return
        ends = accumulate((len(wait.executions) for wait in waits), initial=0)
        for wait, (first, last) in zip(waits, pairwise(ends), strict=True):
            _answer(wait, added[first:last])

    async def _send_each(self, waits: list[_Wait], error: Exception) -> None:
        """Nobody pays for a neighbour's mistake."""
        for wait in waits:
            try:
                added = await add(self._db, wait.executions) if len(waits) > 1 else error
            except Exception as own:
                added = own
            _answer(wait, added)


def _answer(wait: _Wait, added: list[Added] | Exception) -> None:
    """Whoever was cancelled meanwhile hears nothing."""
    if wait.answer.done():
        return
    if isinstance(added, Exception):
        wait.answer.set_exception(added)
    else:
        wait.answer.set_result(added)
