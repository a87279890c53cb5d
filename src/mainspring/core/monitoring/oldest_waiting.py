"""Since when the oldest execution of each job has been waiting.

Where little waits on the whole, all of it is read at once. Where much does, the jobs with most are looked at one by
one. Stores list the newest first, and a queue may be long. Of a short one every execution is read. Of a long one a
sample is remembered at each look: the newest that is ready then. The oldest sample that still waits is the answer, to
within the time between two looks. When a long queue is first seen, its oldest is searched for by time, once.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ...model.execution import ExecutionRow, State
from ...model.job import LiveCounts
from ...model.store.messages import ExecutionQuery
from ...model.time.instants import SECOND, Micros
from ..ports import Store

ALL = 1_000
"""Executions of all jobs that are read in one go."""
JOBS = 100
"""Jobs looked at one by one, where there are more executions: those with most that waits."""
LISTED = 100
"""Executions of one job that are all read. Where there are more, samples tell."""
SAMPLES = 10_000
SEARCHES = 32
_PENDING = frozenset({State.PENDING})

Samples: TypeAlias = deque[ExecutionRow]


class Backlog:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._samples: dict[str, Samples] = {}

    async def oldest(self, live: Mapping[str, LiveCounts], now: Micros) -> dict[str, Micros | None]:
        """By job: None where nothing is ready. A job that is not named was not looked at, because too much waits."""
        waiting = sum(counts.pending for counts in live.values())
        if not waiting:
            return dict.fromkeys(live)
        if waiting <= ALL:
            everything = await self._store.find(ExecutionQuery(states=_PENDING, limit=ALL + 1))
            if len(everything) <= ALL:
                self._samples = {}
                return {**dict.fromkeys(live), **_oldest_of_each(_ready(everything, now))}
        busiest = heapq.nlargest(JOBS, ((counts.pending, id) for id, counts in live.items() if counts.pending))
        long = {id for pending, id in busiest if pending > LISTED}
        self._samples = {id: samples for id, samples in self._samples.items() if id in long}
        found: dict[str, Micros | None] = {id: None for id, counts in live.items() if not counts.pending}
        for _, id in busiest:
            found[id] = await self._sampled(id, now) if id in long else await self._listed(id, now)
        return found

    async def _listed(self, job_id: str, now: Micros) -> Micros | None:
        return _oldest_of_each(_ready(await self._pending(job_id, None, LISTED), now)).get(job_id)

    async def _sampled(self, job_id: str, now: Micros) -> Micros | None:
        samples = self._samples.get(job_id)
        if samples is None:
            samples = self._samples[job_id] = deque(await self._search(job_id, now), SAMPLES)
        newest = _ready(await self._pending(job_id, None, 1), now)
        if newest and (not samples or newest[0].id != samples[-1].id):
            samples.append(newest[0])
        while samples:
            execution = await self._store.execution(samples[0].id)
            if execution is not None and execution.state is State.PENDING:
                return execution.due if execution.due <= now else None
            samples.popleft()
        return None

    async def _search(self, job_id: str, now: Micros) -> list[ExecutionRow]:
        """Further and further back in time, until nothing older is there; then between the two, to a tenth. What was
        planned for later when it was made may hide what is a little older."""
        found: list[ExecutionRow] = []
        age, seen, nothing = SECOND, 0, None
        for _ in range(SEARCHES):
            older = _ready(await self._pending(job_id, now - age, 1), now)
            if older:
                found, seen = older, age
            else:
                nothing = age
            if nothing is None:
                age *= 2
            elif nothing - seen <= max(nothing // 10, SECOND // 10):
                break
            else:
                age = (seen + nothing) // 2
        return found

    async def _pending(self, job_id: str, until: Micros | None, limit: int) -> list[ExecutionRow]:
        query = ExecutionQuery(job_id=job_id, states=_PENDING, created_to=until, limit=limit)
        return await self._store.find(query)


def _oldest_of_each(ready: Sequence[ExecutionRow]) -> dict[str, Micros]:
    oldest: dict[str, Micros] = {}
    for execution in ready:
        oldest[execution.job_id] = min(execution.due, oldest.get(execution.job_id, execution.due))
    return oldest


def _ready(executions: Sequence[ExecutionRow], now: Micros) -> list[ExecutionRow]:
    return [execution for execution in executions if execution.due <= now]
