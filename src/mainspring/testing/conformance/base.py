"""The base of the conformance tests: the hooks a store plugs into, and a world of jobs, executions and workers."""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from inspect import signature
from typing import Any

from msgspec.structs import replace

from ...core.ports import Clock, Store
from ...model.execution import AttemptRecord, ExecutionRow, State
from ...model.job import Job, JobSpec, encode_spec
from ...model.store.messages import (
    Added,
    Audit,
    Change,
    ClaimRequest,
    Exchanged,
    ExecutionQuery,
    HeartbeatReply,
    HeartbeatRequest,
    JobWrite,
    WorkerInfo,
)
from ...model.time.instants import seconds_to_micros
from ...model.triggers import encode_trigger, every
from ..clock import FakeClock

LEASE = 30.0


class StoreSuite(ABC):
    """The two hooks of the store under test. A test that takes a `world` gets one around a fresh store."""

    def __init_subclass__(cls) -> None:
        names = [name for base in cls.__bases__ for name in vars(base) if name.startswith("test_")]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise TypeError(f"{cls.__name__} would run only one of the tests of the same name: {', '.join(twice)}")
        for name, test in list(vars(cls).items()):
            if name.startswith("test_") and "world" in signature(test).parameters:
                setattr(cls, name, _with_world(test))

    @abstractmethod
    def open_store(self, clock: Clock) -> AbstractAsyncContextManager[Store]:
        """An open, empty store whose own clock is `clock`; closed and disposed of at the end."""

    @abstractmethod
    def second_store(self, store: Store, clock: Clock) -> AbstractAsyncContextManager[Store]:
        """Another open handle onto the data of `store`, as another process would have."""

    def short_ways(self) -> AbstractContextManager[Mapping[str, int]]:
        """How often the store has taken each short way it has for usual endings and ticks, counted while the context
        lasts. The random comparison must have taken them all."""
        return nullcontext({})


def _with_world(test: Callable[[StoreSuite, World], Awaitable[None]]) -> Callable[[StoreSuite], Awaitable[None]]:
    async def run(self: StoreSuite) -> None:
        clock = FakeClock()
        async with self.open_store(clock) as store:
            await test(self, World(self, store, clock))

    for attribute in ("__name__", "__qualname__", "__doc__", "__module__", "__dict__"):
        setattr(run, attribute, getattr(test, attribute))
    return run


class World:
    """A store, its clock, and short ways to write a test.

    Ids ascend in the order in which executions are created; the clock stands still unless a test moves it.
    """

    def __init__(self, suite: StoreSuite, store: Store, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self._suite = suite
        self._serial = itertools.count(1)

    def second(self) -> AbstractAsyncContextManager[Store]:
        return self._suite.second_store(self.store, self.clock)

    @property
    def now(self) -> int:
        return self.clock.now()

    def after(self, seconds: float) -> int:
        return self.clock.now() + seconds_to_micros(seconds)

    def id(self) -> str:
        return f"019b7000-0000-7000-8000-{next(self._serial):012x}"

    # --- values -------------------------------------------------------------------------------------------------

    def execution(self, **fields: Any) -> ExecutionRow:
        plain = {"id": self.id(), "job": "job", "job_id": "job-1", "handler": "work", "created": self.now}
        return ExecutionRow(**{**plain, "due": self.now, **fields})

    def job(self, name: str = "job", *, ticking: bool = False, **fields: Any) -> Job:
        trigger = encode_trigger(every(minutes=1)) if ticking else None
        declared = encode_spec(JobSpec(handler="work", trigger=trigger))
        plain = {"name": name, "id": f"{name}-1", "declared": declared, "created": self.now, "updated": self.now}
        return Job(**{**plain, **fields})

    def audit(self, target: str = "job", action: str = "pause") -> Audit:
        return Audit(id=self.id(), at=self.now, actor="ann", action=action, target=target)

    def attempt(self, number: int = 1, **fields: Any) -> AttemptRecord:
        return AttemptRecord(**{"number": number, "worker": "w1", "started": 1, "ended": 2, "end": "failed", **fields})

    def worker(self, id: str = "w1", **fields: Any) -> WorkerInfo:
        return WorkerInfo(**{"id": id, "host": "here", "pid": 7, "version": "1.0", **fields})

    def change(self, row: ExecutionRow, to: State = State.COMPLETED, **fields: Any) -> Change:
        """A change of the row, expected as it is here."""
        seen = {"id": row.id, "expect": row.state, "token": row.token, "owner": row.owner, "to": to, "at": self.now}
        return Change(**{**seen, "failures": row.failures, "crashes": row.crashes, **fields})

    # --- steps --------------------------------------------------------------------------------------------------

    async def add(self, *executions: ExecutionRow, audit: Sequence[Audit] = ()) -> list[Added]:
        return await self.store.add(executions, audit)

    async def outcomes(self, *executions: ExecutionRow) -> list[str]:
        return [added.outcome for added in await self.add(*executions)]

    async def write(self, job: Job, seen: int | None = None, **fields: Any) -> bool:
        [written] = await self.store.write_jobs([JobWrite(job=job, seen_version=seen, **fields)])
        return written.won

    async def stored_job(self, name: str = "job") -> Job:
        [job] = await self.store.jobs([name])
        return job

    async def exchange(self, *changes: Change, **fields: Any) -> Exchanged:
        """Settle these changes, then claim as worker w1."""
        return await self.store.exchange(changes, self.request(**fields))

    def request(self, **fields: Any) -> ClaimRequest:
        plain = {"owner": "w1", "handlers": frozenset({"work"}), "queues": None, "limit": 10, "lease": LEASE}
        return ClaimRequest(**{**plain, **fields})

    async def claim(self, **fields: Any) -> tuple[ExecutionRow, ...]:
        return (await self.exchange(**fields)).claimed

    async def running(self, **fields: Any) -> ExecutionRow:
        """An execution that worker w1 runs. There must be nothing else to claim."""
        await self.add(self.execution(**fields))
        [row] = await self.claim()
        return row

    async def settle(self, row: ExecutionRow, to: State = State.COMPLETED, **fields: Any) -> bool:
        answer = await self.store.exchange([self.change(row, to, **fields)], None)
        return answer.applied == (True,)

    async def finished(self, to: State = State.COMPLETED, **fields: Any) -> ExecutionRow:
        """An execution that ran and ended. There must be nothing else to claim."""
        row = await self.running(**fields)
        assert await self.settle(row, to)
        return await self.get(row.id)

    async def heartbeat(
        self, *leases: tuple[str, int], worker: str = "w1", lease: float = LEASE, **info: Any
    ) -> HeartbeatReply:
        beat = HeartbeatRequest(worker=self.worker(worker, **info), leases=leases, lease=lease)
        return await asyncio.to_thread(self.store.heartbeat, beat)

    async def get(self, id: str) -> ExecutionRow:
        row = await self.store.execution(id)
        assert row is not None
        return row

    async def state(self, id: str) -> State | None:
        row = await self.store.execution(id)
        return None if row is None else row.state

    async def all_ids(self, **filters: Any) -> list[str]:
        return ids(await self.store.find(ExecutionQuery(**{"limit": 1_000, **filters})))


def ids(rows: Iterable[ExecutionRow]) -> list[str]:
    return [row.id for row in rows]


def as_claimed(row: ExecutionRow, now: int, *, token: int, owner: str = "w1", lease: float = LEASE) -> ExecutionRow:
    """The row after its first claim, if it is not staged."""
    until = now + seconds_to_micros(lease)
    fields = {"token": token, "owner": owner, "lease": until, "claimed": now, "started": now}
    return replace(row, state=State.RUNNING, **fields)
