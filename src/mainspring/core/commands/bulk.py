"""One command for several jobs or executions that the caller names, within the call. Each is done or refused by itself.

For everything that a filter finds, and for what may be large, there are bulk actions: `core/bulk`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, TypeAlias, get_args

import msgspec

from ...model.errors import ExecutionNotFound, InvalidValue, MainspringError, StoreError
from ...model.values.ids import follow_up_id
from ...model.values.reading import choice, words
from ..queries.queries import EXECUTION_ID
from .steering import Check, Steering

MOST = 1_000
"""Jobs or executions that one call handles."""

JobCommand: TypeAlias = Literal["pause", "resume", "cancel", "retry"]
ExecutionCommand: TypeAlias = Literal["cancel", "retry"]

JOB_COMMANDS: tuple[str, ...] = get_args(JobCommand)
EXECUTION_COMMANDS: tuple[str, ...] = get_args(ExecutionCommand)

One = Callable[[str], Awaitable["BulkItem"]]
OnItem = Callable[["BulkItem"], None]
"""Called for each item as it is done or refused: a caller who is stopped in the middle knows how far it came."""


class BulkItem(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a command for one id."""

    id: str
    """The job or execution."""
    status: str | None = None
    """Its state afterwards."""
    execution_id: str | None = None
    """The execution that was created, if the command creates one."""
    error: MainspringError | None = None
    """Why it was refused; None if it was not."""

    @property
    def done(self) -> bool:
        """Whether it was changed."""
        return self.error is None


class BulkResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of each item of a command for several jobs or executions."""

    command: str
    """The command."""
    items: list[BulkItem]
    """The result for each id, in the order given."""

    @property
    def done(self) -> int:
        """How many items were changed."""
        return sum(item.done for item in self.items)

    @property
    def refused(self) -> int:
        """How many items were refused."""
        return len(self.items) - self.done


class BulkInterrupted(StoreError):
    """The store failed in the middle. `result` is what was handled before, `rest` are the ids that were not. The first
    of them was under way when the store failed: it may have been done."""

    def __init__(self, result: BulkResult, error: BaseException, rest: Sequence[str]) -> None:
        super().__init__(result, error, rest)
        self.result, self.error, self.rest = result, error, tuple(rest)

    def __str__(self) -> str:
        result = self.result
        done = f"{result.command}: broke off after {result.done} done, {result.refused} refused: {self.error}"
        return f"{done}; {len(self.rest)} left, from {self.rest[0]!r} on"


class Bulk:
    """`check` may refuse a job, or the job of an execution, that the caller may not steer. Retries `under` an id get
    ids that follow from it, so that the same request makes nothing twice."""

    def __init__(self, steering: Steering) -> None:
        self._steering = steering

    async def jobs(
        self,
        command: str,
        names: Iterable[str],
        *,
        by: str,
        note: str | None = None,
        check: Check | None = None,
        under: str | None = None,
        on_item: OnItem = lambda item: None,
    ) -> BulkResult:
        choice("command", command, JOB_COMMANDS)
        steering = self._steering.checked(check)

        async def one(name: str) -> BulkItem:
            if command == "retry":
                made = await steering.retry_job(name, by=by, as_id=_id_under(under, name))
                return BulkItem(id=name, execution_id=made.id)
            if command == "pause":
                view = await steering.pause(name, by=by, note=note)
            elif command == "resume":
                view = await steering.resume(name, by=by)
            else:
                view = await steering.cancel_job(name, by=by, reason=note)
            return BulkItem(id=name, status=view.state.value)

        return await _all(command, named(names), one, on_item)

    async def executions(
        self,
        command: str,
        ids: Iterable[str],
        *,
        by: str,
        note: str | None = None,
        check: Check | None = None,
        under: str | None = None,
        on_item: OnItem = lambda item: None,
    ) -> BulkResult:
        choice("command", command, EXECUTION_COMMANDS)
        steering = self._steering.checked(check)

        async def one(id: str) -> BulkItem:
            if not EXECUTION_ID.fullmatch(id):
                raise ExecutionNotFound(id)
            if command == "cancel":
                ended = await steering.cancel_execution(id, by=by, reason=note)
                return BulkItem(id=id, status=ended.state.value)
            made = await steering.retry_execution(id, by=by, as_id=_id_under(under, id))
            return BulkItem(id=id, execution_id=made.id, status=made.state.value)

        return await _all(command, named(ids), one, on_item)


def named(ids: Iterable[str]) -> tuple[str, ...]:
    """What the caller named, each once."""
    if isinstance(ids, str):
        raise InvalidValue("ids", ids, "a list of ids or names")
    chosen = tuple(dict.fromkeys(words("ids", id) for id in ids))
    if len(chosen) > MOST:
        raise InvalidValue("ids", len(chosen), f"at most {MOST:,}", "For more, start a bulk action with a filter")
    return chosen


def _id_under(under: str | None, item: str) -> str | None:
    return None if under is None else follow_up_id(under, "bulk", item)


async def _all(command: str, ids: Sequence[str], one: One, on_item: OnItem) -> BulkResult:
    items: list[BulkItem] = []
    for id in ids:
        try:
            items.append(await _tried(id, one))
            await asyncio.sleep(0)  # other tasks get a turn: the memory store never yields by itself
            on_item(items[-1])
        except (StoreError, OSError) as error:
            if not items:  # nothing was done, so there is nothing to report
                raise
            raise BulkInterrupted(BulkResult(command=command, items=items), error, ids[len(items) :]) from error
    return BulkResult(command=command, items=items)


async def _tried(id: str, one: One) -> BulkItem:
    """An error of the store concerns all items, and is raised."""
    try:
        return await one(id)
    except StoreError:
        raise
    except MainspringError as error:
        return BulkItem(id=id, error=error)
