"""One command for many jobs or executions, named or found by a filter. Each is done or refused on its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from ..model.errors import ExecutionNotFound, InvalidValue, MainspringError, StoreError, nearest
from ..model.execution import Execution
from ..model.ids import follow_up_id
from ..model.job import Job, JobState
from ..model.values import choice
from .control import EXECUTION_ID, Control
from .job_lists import JobFilter, JobLists
from .queries import Queries

MOST = 1_000
"""Jobs or executions that one bulk handles."""

JOB_COMMANDS = ("pause", "resume", "cancel", "retry")
EXECUTION_COMMANDS = ("cancel", "retry")
EXECUTION_FILTERS = ("job", "status", "tenant", "trace_id", "parent_id", "trigger", "since", "until")

Check = Callable[[Job], None]
One = Callable[[str], Awaitable["BulkItem"]]


class BulkItem(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one of them: `error` says why it was refused."""

    id: str
    status: str | None = None
    execution_id: str | None = None
    error: MainspringError | None = None

    @property
    def done(self) -> bool:
        return self.error is None


class BulkResult(msgspec.Struct, frozen=True, kw_only=True):
    """`more`: the filter finds more than one bulk handles."""

    command: str
    items: list[BulkItem]
    more: bool = False

    @property
    def done(self) -> int:
        return sum(item.done for item in self.items)

    @property
    def refused(self) -> int:
        return len(self.items) - self.done


class Bulk:
    """`check` may refuse a job that is about to be run again."""

    def __init__(self, control: Control, queries: Queries, job_lists: JobLists) -> None:
        self._control, self._queries, self._job_lists = control, queries, job_lists

    async def jobs(
        self,
        command: str,
        names: Sequence[str] | None = None,
        wanted: JobFilter | None = None,
        *,
        by: str,
        note: str | None = None,
        check: Check = lambda job: None,
        under: str | None = None,
    ) -> BulkResult:
        """What is retried `under` an id gets ids that follow from it: the same request makes nothing twice."""
        choice("command", command, JOB_COMMANDS)
        _refuse_both(names, wanted)
        chosen = _named(names) if wanted is None else await self._job_lists.names(wanted, MOST + 1)

        async def one(name: str) -> BulkItem:
            if command == "retry":
                check((await self._queries.job(name)).job)
                made = await self._control.retry_job(name, by=by, as_id=_id_under(under, name))
                return BulkItem(id=name, execution_id=made.id)
            if command == "pause":
                view = await self._control.pause(name, by=by, note=note)
            elif command == "resume":
                view = await self._control.resume(name, by=by)
            else:
                view = await self._control.cancel_job(name, by=by, reason=note)
            return BulkItem(id=name, status=view.state.value)

        return await _all(command, chosen, one)

    async def executions(
        self,
        command: str,
        ids: Sequence[str] | None = None,
        filters: Mapping[str, Any] | None = None,
        *,
        by: str,
        note: str | None = None,
        check: Check = lambda job: None,
        under: str | None = None,
    ) -> BulkResult:
        """`filters` are those of `Queries.executions`; `under` as for jobs."""
        choice("command", command, EXECUTION_COMMANDS)
        _refuse_both(ids, filters)
        chosen = _named(ids) if filters is None else await self._found(filters, alone=command == "retry")

        async def one(id: str) -> BulkItem:
            if not EXECUTION_ID.fullmatch(id):
                raise ExecutionNotFound(id)
            if command == "cancel":
                ended = await self._control.cancel_execution(id, by=by, reason=note)
                return BulkItem(id=id, status=ended.state.value)
            check((await self._queries.job((await self._queries.get(id)).job)).job)
            made = await self._control.retry_execution(id, by=by, as_id=_id_under(under, id))
            return BulkItem(id=id, execution_id=made.id, status=made.state.value)

        return await _all(command, chosen, one)

    async def _found(self, filters: Mapping[str, Any], alone: bool) -> list[str]:
        """`alone` leaves out tenants whose parent was found too: to run that again is to run them again."""
        found: list[Execution] = []
        while len(found) <= MOST:
            page = await self._queries.executions(**filters, limit=MOST, before=found[-1].id if found else None)
            found += page
            if len(page) < MOST:
                break
        ids = {each.id for each in found}
        return [each.id for each in found if not alone or each.parent_id not in ids]


def _id_under(under: str | None, item: str) -> str | None:
    return None if under is None else follow_up_id(under, "bulk", item)


def job_filter(given: Mapping[str, Any]) -> JobFilter:
    """Filters by name, checked. One at least: to steer everything there is must be said in so many words."""
    _check_filters(given, JobFilter.__struct_fields__)
    fields = dict(given)
    if isinstance(status := fields.get("status"), str):
        fields["status"] = (status,)
    elif status is not None:
        fields["status"] = tuple(status)
    for state in fields.get("status") or ():
        choice("status", state, tuple(state.value for state in JobState))
    return JobFilter(**fields)


def execution_filters(given: Mapping[str, Any]) -> Mapping[str, Any]:
    _check_filters(given, EXECUTION_FILTERS)
    return given


def _check_filters(given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            guess = nearest(name, known)
            raise InvalidValue("filter", name, ", ".join(known), f"Did you mean {guess!r}?" if guess else "")
    if all(value is None for value in given.values()):
        raise InvalidValue("filter", None, f"names or ids, or one of {', '.join(known)}", "Say which are meant")


def _named(ids: Sequence[str] | None) -> list[str]:
    chosen = list(dict.fromkeys(ids or ()))
    if len(chosen) > MOST:
        raise InvalidValue("ids", len(chosen), f"at most {MOST} at a time")
    return chosen


def _refuse_both(ids: object, wanted: object) -> None:
    if (ids is None) == (wanted is None):
        raise InvalidValue("ids", "both" if ids is not None else None, "either ids or a filter")


async def _all(command: str, ids: list[str], one: One) -> BulkResult:
    items = [await _tried(id, one) for id in ids[:MOST]]
    return BulkResult(command=command, items=items, more=len(ids) > MOST)


async def _tried(id: str, one: One) -> BulkItem:
    """What is wrong with the store is wrong for all of them, and is raised."""
    try:
        return await one(id)
    except StoreError:
        raise
    except MainspringError as error:
        return BulkItem(id=id, error=error)
