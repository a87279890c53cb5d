"""Clients: they enqueue, trigger and steer at random, and write down what they were told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import Any

from mainspring.model.errors import CommandRefused, InvalidValue, NotFound, StoreError
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.policies import Unique
from mainspring.model.time.instants import to_datetime
from tests.simulator.parts import Parts
from tests.simulator.workload import OVERLAPS, Workload, any_trigger, params

EXPECTED = (CommandRefused, NotFound, StoreError)
"""What a client must be ready for: refusals, names that are gone, and a store that is not there."""

KEYS = "abcd"

Action = Callable[[], Awaitable[None]]


class SimulatedClient:
    def __init__(self, parts: Parts, workload: Workload, chance: Random) -> None:
        self._parts, self._workload, self._chance = parts, workload, chance
        self._journal = parts.process.journal
        self._commands = 0
        steering: list[Action] = [
            self._pause,
            self._resume,
            self._cancel_job,
            self._cancel_job,
            self._reactivate,
            self._reactivate,
            self._cancel_execution,
            self._cancel_execution,
            self._retry_execution,
            self._retry_job,
            self._update,
            self._revert,
            self._remove,
            self._trigger,
            self._trigger,
        ]
        self._actions = [self._enqueue] * 8 + [self._enqueue_keyed] * 6 + [self._enqueue_many] + steering

    async def run(self) -> None:
        """Until the process is killed."""
        await self._open()
        while True:
            await asyncio.sleep(self._chance.uniform(0.1, 2.5))
            await self._survive(self._chance.choice(self._actions))

    async def _open(self) -> None:
        try:
            await self._parts.open([])
        except StoreError:
            await asyncio.sleep(1.0)
            await self._open()

    async def _survive(self, action: Action) -> None:
        try:
            await action()
        except EXPECTED as error:
            self._parts.process.judge.note(self._parts.process.name, f"told: {type(error).__name__}")

    def _by(self) -> str:
        self._commands += 1
        return f"{self._parts.process.name}.{self._commands}"

    # --- making executions --------------------------------------------------------------------------------
    async def _enqueue(self) -> None:
        await self._add({})

    async def _enqueue_keyed(self) -> None:
        """Staged ones wait only for keys later in the alphabet: two that waited for each other would never end."""
        enqueued = self._chance.choice(KEYS)
        running = self._chance.choice([key for key in KEYS if key >= enqueued])
        match self._chance.randrange(6):
            case 0 | 1:
                await self._add({"unique": enqueued})
            case 2:
                await self._add({"unique": Unique(enqueued=None, running=running)})
            case 3:
                await self._add({"unique": Unique(enqueued=enqueued, running=None)})
            case _:
                await self._add({"unique": Unique(enqueued=enqueued, running=running)})

    async def _add(self, options: dict[str, Any]) -> None:
        if self._chance.random() < 0.3:
            later = timedelta(seconds=self._chance.uniform(-5, 30))
            options["start_at"] = to_datetime(self._parts.time.now()) + later
        if self._chance.random() < 0.3:
            options["priority"] = self._chance.randint(-2, 2)
        self._told(await self._parts.enqueuer.enqueue(self._handler(), params(self._chance), **options), "enqueue")

    def _handler(self) -> str:
        handler = self._chance.choice(self._workload.on_demand)
        return "steady" if handler == "deadly" and self._chance.random() < 0.6 else handler

    async def _enqueue_many(self) -> None:
        items = [(self._handler(), params(self._chance)) for _ in range(3)]
        for execution in await self._parts.enqueuer.enqueue_many(items):
            self._told(execution, "enqueue_many")

    async def _trigger(self) -> None:
        self._told(await self._parts.manual_runs.trigger(self._job(), by=self._by()), "trigger")

    def _told(self, execution: ExecutionRow | None, what: str) -> None:
        if execution is not None and execution.state is not State.SKIPPED:
            self._journal.acknowledged[execution.id] = what

    # --- steering -----------------------------------------------------------------------------------------
    async def _pause(self) -> None:
        later = timedelta(seconds=self._chance.uniform(2, 20))
        resume_at = to_datetime(self._parts.time.now()) + later if self._chance.random() < 0.5 else None
        try:
            await self._command(lambda by: self._parts.steering.pause(self._job(), by=by, resume_at=resume_at))
        except InvalidValue:
            self._parts.process.judge.note(self._parts.process.name, "told: the time to resume is over by now")

    async def _resume(self) -> None:
        await self._command(lambda by: self._parts.steering.resume(self._job(), by=by))

    async def _cancel_job(self) -> None:
        await self._command(lambda by: self._parts.steering.cancel_job(self._job(), by=by))

    async def _reactivate(self) -> None:
        for name in self._workload.recurring + self._workload.on_demand:
            if (await self._parts.job_cache.get(name)).cancelled is not None:
                await self._command(lambda by, name=name: self._parts.steering.reactivate(name, by=by))  # type: ignore[misc]
                return

    async def _update(self) -> None:
        changes: list[dict[str, Any]] = [
            {"trigger": any_trigger(self._workload.start, self._chance), "tz": "UTC"},
            {"overlap": self._chance.choice(OVERLAPS)},
            {"priority": self._chance.randint(-2, 2)},
            {"enabled": self._chance.random() < 0.6},
            {"max_attempts": self._chance.randint(1, 4)},
        ]
        change = self._chance.choice(changes)
        name = self._chance.choice(self._workload.recurring)
        await self._command(lambda by: self._parts.steering.update_job(name, change, by=by))

    async def _revert(self) -> None:
        await self._command(lambda by: self._parts.steering.revert_job(self._job(), by=by))

    async def _remove(self) -> None:
        """Seldom: the next process that starts declares the job anew, as another one of the same name."""
        if self._chance.random() < 0.3:
            name, by = self._chance.choice(self._workload.recurring), self._by()
            await self._parts.steering.remove_job(name, by=by, force=True)
            self._journal.commands.add(by)

    async def _cancel_execution(self) -> None:
        if (id := self._known()) is not None:
            await self._command(lambda by: self._parts.steering.cancel_execution(id, by=by))

    async def _retry_execution(self) -> None:
        if (id := self._known()) is not None:
            self._told(await self._parts.steering.retry(id, by=self._by()), "retry")

    async def _retry_job(self) -> None:
        self._told(await self._parts.steering.retry(self._job(), by=self._by()), "retry")

    async def _command(self, command: Callable[[str], Awaitable[Any]]) -> None:
        by = self._by()
        await command(by)
        self._journal.commands.add(by)

    def _job(self) -> str:
        return self._chance.choice(self._workload.recurring * 3 + self._workload.on_demand)

    def _known(self) -> str | None:
        recent = list(self._journal.acknowledged)[-15:]
        return self._chance.choice(recent) if recent else None
