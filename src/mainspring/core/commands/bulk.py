"""Bulk commands: one command for many jobs or executions, named or found by a filter. Each is done or refused by
itself.

A filter finds no jobs of Mainspring itself, and finds their executions only if it names their job: an operator who
cancels everything that waits does not mean the webhooks about it.

A bulk handles a thousand at most. It returns `next`, from which another bulk continues, so that nothing is done twice
and nothing left out, whatever the first one changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ...model.errors import ExecutionNotFound, InvalidValue, MainspringError, StoreError, nearest
from ...model.execution import ExecutionRow, State
from ...model.job import JobState
from ...model.store.messages import ExecutionQuery
from ...model.values.ids import follow_up_id
from ...model.values.payload import presentable
from ...model.values.reading import SYSTEM_PREFIX, choice, whole, words
from ..queries.job_lists import JobFilter, JobLists
from ..queries.queries import EXECUTION_ID, Queries, execution_query
from .steering import Check, Steering

MOST = 1_000
"""Jobs or executions that one bulk handles."""

MOST_PAGES = 20
"""Pages of executions that one bulk reads: most of them may be executions of tenants, whose parents stand for them."""

JOB_COMMANDS = ("pause", "resume", "cancel", "retry")
EXECUTION_COMMANDS = ("cancel", "retry")

One = Callable[[str], Awaitable["BulkItem"]]
OnItem = Callable[["BulkItem"], None]
"""Called for each item as it is done or refused: a caller who is stopped in the middle knows how far it came."""
StandsFor = Callable[[ExecutionRow], Awaitable[bool]]


class Chosen(msgspec.Struct, frozen=True):
    """The ids that one bulk handles, and where another one continues if there may be more."""

    ids: list[str]
    next: str | None = None
    found: bool = True
    """By a filter; otherwise the caller named them."""


class BulkItem(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one id: `error` says why it was refused."""

    id: str
    status: str | None = None
    execution_id: str | None = None
    error: MainspringError | None = None

    @property
    def done(self) -> bool:
        return self.error is None


class BulkResult(msgspec.Struct, frozen=True, kw_only=True):
    """`next` is set when the filter may find more than one bulk handles: another bulk continues with it as `after`."""

    command: str
    items: list[BulkItem]
    next: str | None = None

    @property
    def more(self) -> bool:
        return self.next is not None

    @property
    def done(self) -> int:
        return sum(item.done for item in self.items)

    @property
    def refused(self) -> int:
        return len(self.items) - self.done


class BulkInterrupted(StoreError):
    """The store failed in the middle of a bulk. `result` is what was handled before; another bulk with the same filter
    continues from its `next`. Of named ids, `rest` are those that were not handled. The first id that is left was under
    way when the store failed: it may have been done."""

    def __init__(self, result: BulkResult, error: BaseException, rest: Sequence[str] = ()) -> None:
        super().__init__(result, error, rest)
        self.result, self.error, self.rest = result, error, tuple(rest)

    def __str__(self) -> str:
        result = self.result
        done = f"{result.command}: broke off after {result.done} done, {result.refused} refused: {self.error}"
        if self.rest:
            return f"{done}; {len(self.rest)} left, from {self.rest[0]!r} on"
        return f"{done}; go on with after={result.next!r}"


class Bulk:
    """`check` may refuse a job, or the job of an execution, that the caller may not steer."""

    def __init__(self, steering: Steering, queries: Queries, job_lists: JobLists) -> None:
        self._steering, self._queries, self._job_lists = steering, queries, job_lists

    async def jobs(
        self,
        command: str,
        names: Sequence[str] | None = None,
        wanted: JobFilter | None = None,
        *,
        by: str,
        note: str | None = None,
        check: Check | None = None,
        under: str | None = None,
        after: str | None = None,
        limit: int = MOST,
        on_item: OnItem = lambda item: None,
    ) -> BulkResult:
        """Retries `under` an id get ids that follow from it, so that the same request makes nothing twice."""
        choice("command", command, JOB_COMMANDS)
        _check_choice(names, wanted, after, limit)
        chosen = _named(names) if wanted is None else await self._names(wanted, after, limit)
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

        return await _all(command, chosen, one, on_item)

    async def executions(
        self,
        command: str,
        ids: Sequence[str] | None = None,
        filters: Mapping[str, Any] | None = None,
        *,
        by: str,
        note: str | None = None,
        check: Check | None = None,
        under: str | None = None,
        after: str | None = None,
        limit: int = MOST,
        on_item: OnItem = lambda item: None,
    ) -> BulkResult:
        """`filters` are those of `Queries.executions`; `under` as for jobs. To retry a parent is to retry its tenants:
        where both are found, the parent stands for them."""
        choice("command", command, EXECUTION_COMMANDS)
        _check_choice(ids, filters, after, limit)
        chosen, steering = _named(ids), self._steering.checked(check)
        if filters is not None:
            stands_for = self._stands_for(filters) if command == "retry" else _nobody
            chosen = await self._ids(filters, after, limit, stands_for)

        async def one(id: str) -> BulkItem:
            if not EXECUTION_ID.fullmatch(id):
                raise ExecutionNotFound(id)
            if command == "cancel":
                ended = await steering.cancel_execution(id, by=by, reason=note)
                return BulkItem(id=id, status=ended.state.value)
            made = await steering.retry_execution(id, by=by, as_id=_id_under(under, id))
            return BulkItem(id=id, execution_id=made.id, status=made.state.value)

        return await _all(command, chosen, one, on_item)

    async def _names(self, wanted: JobFilter, after: str | None, limit: int) -> Chosen:
        names = await self._job_lists.names(wanted, limit + 2, after or "")  # one may be left out, and one shows more
        found = [name for name in names if not name.startswith(SYSTEM_PREFIX)]
        return Chosen(found[:limit], found[limit - 1] if len(found) > limit else None)

    async def _ids(self, filters: Mapping[str, Any], after: str | None, limit: int, stands_for: StandsFor) -> Chosen:
        """Newest first. One id more than is handled shows whether there are more."""
        found: list[str] = []
        leaves_out = filters.get("job") is None
        for _ in range(MOST_PAGES):
            page = await self._queries.executions(**filters, limit=MOST, before=after)
            for each in page:
                own = leaves_out and each.job.startswith(SYSTEM_PREFIX)
                if not own and not await stands_for(each):
                    if len(found) == limit:
                        return Chosen(found, after)
                    found.append(each.id)
                after = each.id
            if len(page) < MOST:
                return Chosen(found)
        return Chosen(found, after)

    def _stands_for(self, filters: Mapping[str, Any]) -> StandsFor:
        """Whether the parent of an execution is found by the same filters, in this bulk or another one."""
        query = execution_query(**filters)
        known: dict[str, bool] = {}

        async def stands_for(execution: ExecutionRow) -> bool:
            parent_id = execution.parent_id
            if parent_id is None:
                return False
            if parent_id not in known:
                try:
                    known[parent_id] = is_wanted(await self._queries.get(parent_id), query)
                except ExecutionNotFound:  # pruned before its tenants
                    known[parent_id] = False
            return known[parent_id]

        return stands_for


async def _nobody(execution: ExecutionRow) -> bool:
    return False


def _id_under(under: str | None, item: str) -> str | None:
    return None if under is None else follow_up_id(under, "bulk", item)


def _named(ids: Sequence[str] | None) -> Chosen:
    chosen = list(dict.fromkeys(ids or ()))
    if len(chosen) > MOST:
        raise InvalidValue("ids", len(chosen), f"at most {MOST} at a time")
    return Chosen(chosen, found=False)


def _check_choice(ids: object, wanted: object, after: str | None, limit: int) -> None:
    if (ids is None) == (wanted is None):
        raise InvalidValue("ids", "both" if ids is not None else None, "either ids or a filter")
    if after is not None and wanted is None:
        raise InvalidValue("after", after, "nothing together with ids", "It says where a filter goes on")
    if after is not None:
        words("after", after)
    whole("limit", limit, 1, MOST)


async def _all(command: str, chosen: Chosen, one: One, on_item: OnItem) -> BulkResult:
    items: list[BulkItem] = []
    for id in chosen.ids:
        try:
            items.append(await _tried(id, one))
            on_item(items[-1])
        except (StoreError, OSError) as error:
            if not items:  # nothing was done, so there is nothing to report
                raise
            so_far = BulkResult(command=command, items=items, next=items[-1].id if chosen.found else None)
            raise BulkInterrupted(so_far, error, () if chosen.found else chosen.ids[len(items) :]) from error
    return BulkResult(command=command, items=items, next=chosen.next)


async def _tried(id: str, one: One) -> BulkItem:
    """An error of the store concerns all items, and is raised."""
    try:
        return await one(id)
    except StoreError:
        raise
    except MainspringError as error:
        return BulkItem(id=id, error=error)


EXECUTION_FILTERS = ("job", "status", "tenant", "trace_id", "parent_id", "trigger", "since", "until")
_STATES = tuple(state.value for state in State)
_JOB_STATES = tuple(state.value for state in JobState)


def job_filter(given: Mapping[str, Any]) -> JobFilter:
    """At least one filter: nobody steers every job by leaving them out."""
    fields = _given(given, JobFilter.__struct_fields__)
    for name, value in fields.items():
        match name:
            case "status":
                fields[name] = _statuses(value, _JOB_STATES)
            case "last_status":
                choice(name, value, _STATES)
            case "origin":
                choice(name, value, ("code", "api"))
            case "paused" | "orphaned":
                if not isinstance(value, bool):
                    raise InvalidValue(name, presentable(value), "True or False")
            case _:
                words(name, value)
    return JobFilter(**fields)


def execution_filters(given: Mapping[str, Any]) -> Mapping[str, Any]:
    fields = _given(given, EXECUTION_FILTERS)
    if "status" in fields:
        fields["status"] = _statuses(fields["status"], _STATES)
    execution_query(**fields)
    return fields


def is_wanted(execution: ExecutionRow, query: ExecutionQuery) -> bool:
    """Whether these filters find it."""
    same = all(
        getattr(query, name) in (None, getattr(execution, name))
        for name in ("job", "tenant", "trace_id", "parent_id", "trigger")
    )
    return (
        same
        and (query.states is None or execution.state in query.states)
        and (query.created_from is None or execution.created >= query.created_from)
        and (query.created_to is None or execution.created < query.created_to)
    )


def _given(given: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    for name in given:
        if name not in known:
            guess = nearest(name, known)
            raise InvalidValue("filter", name, ", ".join(known), f"Did you mean {guess!r}?" if guess else "")
    fields = {name: value for name, value in given.items() if value is not None}
    if not fields:
        allowed = f"names or ids, or one at least of {', '.join(known)}"
        raise InvalidValue("filter", dict(given), allowed, "Say which are meant")
    return fields


def _statuses(value: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    """One status or several; an empty list would find nothing."""
    several = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    names = tuple(value) if several else (value,)
    if not names:
        raise InvalidValue("status", list(names), f"one or several of {', '.join(known)}")
    return tuple(choice("status", presentable(name), known) for name in names)
