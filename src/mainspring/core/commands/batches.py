"""Executions of one job that ask for nothing but parameters: what they share is worked out once.

Most of what is enqueued, alone or ten thousand at a time, is that. Each of them still has its own instant, its own id
and checked parameters. Of a large batch all parameters are checked first, into drafts; the executions are made while
the store is busy with those before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import ceil
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import msgspec

from ...model.errors import InvalidValue
from ...model.execution import ExecutionRow
from ...model.job import Job
from ...model.store.batches import ExecutionTemplate, batch_of
from ...model.time.instants import Micros
from ...model.values.ids import Chance, RandomIds
from ...model.values.payload import presentable
from ..ports import Clock
from ..rules import new_execution
from ..rules.limits import depends_on_execution

PARTS_AT_ONCE = 2
_NO_OPTIONS: Mapping[str, Any] = {}

Encode = Callable[[Job, Any], str]
Item = TypeVar("Item")
Result = TypeVar("Result")


def read_item(item: Any) -> tuple[object, Any, Mapping[str, Any]]:
    """Handler, parameters and options of one item of a batch."""
    if type(item) is tuple and len(item) == 2:  # nearly all of them
        return item[0], item[1], _NO_OPTIONS
    if not isinstance(item, Sequence) or isinstance(item, str) or not 1 <= len(item) <= 3:
        raise InvalidValue("items", presentable(item), "(handler, params) or (handler, params, options)")
    handler, params, own = item if len(item) == 3 else (*item, None, None)[:3]
    if own is not None and not isinstance(own, Mapping):
        raise InvalidValue("items", presentable(own), 'options as a mapping, such as {"priority": 5}')
    return handler, params, own or _NO_OPTIONS


class Series:
    """`encode` checks parameters and renders them."""

    def __init__(self, job: Job, encode: Encode, clock: Clock, chance: Chance) -> None:
        self.job = job
        self._encode, self._clock = encode, clock
        self._ids = RandomIds(chance)
        self._blank = new_execution.new_execution(job, trigger="enqueue", now=clock.now(), chance=chance)
        self._shared = ExecutionTemplate(self._blank)
        self._own_limits = depends_on_execution(job)
        self.independent = self._blank.overlap_key is None
        """Whether what becomes of one does not depend on the others, so that their order does not matter."""
        self._last = self._blank.created
        self._without_params: Draft | None = None

    def draft(self, params: Any) -> Draft:
        """Checked parameters, or the error that says what is wrong with them."""
        if params is not None:
            return Draft(self, self._encode(self.job, params))
        if self._without_params is None:
            self._without_params = Draft(self, self._encode(self.job, None))
        return self._without_params

    def now(self) -> Micros:
        return self._clock.now()

    def made(self, params: str, now: Micros) -> ExecutionRow:
        self._last = max(now, self._last + 1)  # ids tell the order: no two have the same instant
        id = self._ids.at(self._last)
        made = msgspec.structs.replace(
            self._blank, id=id, trace_id=id.replace("-", ""), created=now, due=now, params=params
        )
        if not self._own_limits:
            return made
        return new_execution.with_limits(self.job, msgspec.structs.replace(made, limits=None))

    def made_together(self, params: Sequence[str], now: Micros) -> list[ExecutionRow]:
        if self._own_limits:
            return [self.made(each, now) for each in params]
        if len(params) == 1:
            made = self.made(params[0], now)
            return batch_of(self._shared, (made,), self._last - now)
        first = max(now, self._last + 1)
        self._last = first + len(params) - 1
        ids = self._ids.following(first, len(params))
        blank, replace = msgspec.structs.replace(self._blank, created=now, due=now), msgspec.structs.replace
        together = [
            replace(blank, id=id, trace_id=id.replace("-", ""), params=each)
            for id, each in zip(ids, params, strict=True)
        ]
        return batch_of(self._shared, together, self._last - now)


class Draft(NamedTuple):
    """An execution but for its instant and id."""

    series: Series
    params: str


_series, _params = attrgetter("series"), attrgetter("params")


def series_of(drafts: Sequence[Draft | ExecutionRow]) -> set[Series] | None:
    """Those that drafts belong to; None when some are no drafts, but executions that asked for more."""
    return set(map(_series, drafts)) if set(map(type, drafts)) == {Draft} else None


def made_of(drafts: Sequence[Draft | ExecutionRow]) -> list[ExecutionRow]:
    """Those of one call are made at one instant; their ids tell the order."""
    series = series_of(drafts)
    if series is not None and len(series) == 1:
        [only] = series
        return only.made_together(list(map(_params, drafts)), only.now())
    now = next((draft.series.now() for draft in drafts if isinstance(draft, Draft)), 0)
    return [draft.series.made(draft.params, now) if isinstance(draft, Draft) else draft for draft in drafts]


async def overlapped(
    do: Callable[[Sequence[Item]], Awaitable[list[Result]]], items: Sequence[Item], size: int
) -> list[Result]:
    """Do it in parts of at most this size, two at a time; the results are in order. The first error is the answer.
    Parts are alike in size, and as many as keep both ways busy to the end."""
    rounds = max(ceil(len(items) / (size * PARTS_AT_ONCE)), 1)
    size = max(ceil(len(items) / (rounds * PARTS_AT_ONCE)), 1)
    results: list[Result] = []
    under_way: deque[asyncio.Task[list[Result]]] = deque()

    async def part(some: Sequence[Item]) -> list[Result]:
        return await do(some)

    try:
        async with asyncio.TaskGroup() as group:
            for start in range(0, len(items), size):
                if len(under_way) == PARTS_AT_ONCE:
                    results += await under_way.popleft()
                under_way.append(group.create_task(part(items[start : start + size])))
                await asyncio.sleep(0)  # it is on its way before the next one is made
            for task in under_way:
                results += await task
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return results
