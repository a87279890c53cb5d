"""Starting, following and aborting bulk actions. Every change writes its audit record in the same step."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, get_args

import msgspec

from ...model.bulk import ACTIONS, BulkItemRow, BulkPreview, BulkRow, BulkTarget, ItemStatus
from ...model.errors import BulkNotFound, CommandRefused, ExecutionNotFound, InvalidValue, JobNotFound, MainspringError
from ...model.events import BulkBegan
from ...model.execution import FINAL, LIVE, State
from ...model.store.messages import ExecutionQuery
from ...model.time.instants import SECOND, to_datetime
from ...model.values.access import Role
from ...model.values.ids import Chance, random_id
from ...model.values.payload import encode_payload, presentable
from ...model.values.reading import choice, whole, words
from ..auditing import audit_record
from ..commands.bulk import MOST, named
from ..commands.steering import RETRYABLE
from ..filters.errors import bulk_error_filter
from ..filters.jobs import JobFilter, bulk_job_filter
from ..loops import Emit
from ..ports import Store
from ..queries.execution_lists import COUNTED, MAX_PAGE
from ..queries.job_lists import JobLists
from ..queries.queries import Queries
from ..rules import job_commands
from ..rules.edited_params import ParamsEdit, read_edit
from ..rules.secret_params import mask, union
from ..views.job import JobView, job_of, stats_of
from . import records, rules
from .actions import Actions
from .driver import BUDGET, BulkDriver

MOST_PROBED = 100
MAX_TEXT = 1_000
SAMPLE = 10
MOST_COUNTED = 100_000
"""How many executions are counted along an index when a bulk begins, to show its progress. One statement of the store
counts them, which does not block the event loop."""
PREVIEW_PATIENCE = 3.0
"""For how many seconds a dry run counts executions one by one, if an index does not say how many match."""
RECENT = 20
WAIT_POLL = 0.5
FASTEST = 100_000.0
_POSSIBLE: Mapping[str, frozenset[State]] = {
    "retry": RETRYABLE,
    "cancel": LIVE,
    "edit": RETRYABLE | {State.PENDING},
    "delete": FINAL,
}


class BulkRequest(msgspec.Struct, frozen=True):
    """What a caller asks for: an action on the items with these ids, or on all that the filter finds."""

    action: str
    target: str = "executions"
    ids: Iterable[str] | None = None
    filter: Mapping[str, Any] | None = None
    params: Mapping[str, Any] | None = None
    remove: Iterable[str] | None = None


class BulkActions:
    """The commands and queries behind `app.bulk`, the CLI and the HTTP interface."""

    def __init__(
        self,
        store: Store,
        driver: BulkDriver,
        actions: Actions,
        queries: Queries,
        job_lists: JobLists,
        chance: Chance,
        emit: Emit,
    ) -> None:
        self._store, self.driver, self._actions, self._queries = store, driver, actions, queries
        self._job_lists, self._chance, self._emit = job_lists, chance, emit

    # --- starting -----------------------------------------------------------------------------------------
    async def start(
        self,
        request: BulkRequest,
        *,
        pace: Any = None,
        probe: int = 0,
        note: str | None = None,
        by: str = "system",
        role: Role | None = None,
        id: str | None = None,
    ) -> BulkRow:
        """Begin a bulk, which any node carries out. If the caller gives an `id` under which one was begun before, that
        one is returned."""
        if id is not None and (known := await records.record(self._store, id)) is not None:
            return known
        bulk = await self._described(request, by, role)
        bulk = msgspec.structs.replace(
            bulk,
            id=id or bulk.id,
            state="probing" if _probe(probe, bulk.action) else "running",
            pace=None if pace is None else read_pace(pace),
            probe=probe,
            note=None if note is None else words("note", note, MAX_TEXT),
        )
        bulk = msgspec.structs.replace(await self._with_total(bulk), secret=await self._secrets(bulk))
        after = {"action": bulk.action, "target": bulk.target, "filter": bulk.filter, "ids": len(bulk.ids)}
        extra = {"params": mask(bulk.params, bulk.secret), "remove": bulk.remove, "note": bulk.note}
        body = msgspec.json.encode({**after, **{name: value for name, value in extra.items() if value}}).decode()
        audit = audit_record(self._chance, "bulk_start", f"bulk:{bulk.id}", by, bulk.created, after=body)
        if await records.write_record(self._store, bulk, 0, audit):
            self._emit(BulkBegan(bulk))
            self.driver.wake()
        return await self.get(bulk.id)

    async def preview(
        self,
        request: BulkRequest,
        *,
        role: Role | None = None,
        patience: float = PREVIEW_PATIENCE,
        most: int = MOST_COUNTED,
    ) -> BulkPreview:
        """What `start` would do, without doing it: how many items, counted up to `most`, and what would become of the
        first ones."""
        bulk = await self._described(request, "system", role)
        bulk = await self._with_total(bulk, patience, most)
        return BulkPreview(
            action=bulk.action,
            target=bulk.target,
            filter=bulk.filter,
            total=bulk.total,
            total_is_exact=bulk.total_is_exact,
            sample=tuple(await self._sample(bulk)),
        )

    async def _described(self, request: BulkRequest, by: str, role: Role | None) -> BulkRow:
        action, ids, filter = request.action, request.ids, request.filter
        kind: BulkTarget = choice("target", request.target, get_args(BulkTarget))  # type: ignore[assignment]
        choice("action", action, ACTIONS[kind])
        edit = _edit(action, request.params, request.remove, self._actions.payload_limit)
        if (ids is None) == (filter is None):
            raise InvalidValue("ids", "both" if ids is not None else None, "either ids or a filter")
        await asyncio.sleep(0)  # large parameters take milliseconds to check
        now = await self._store.now()
        bulk = BulkRow(
            id=random_id(now, self._chance),
            action=action,
            target=kind,
            ids=() if ids is None else _named(ids),
            params=dict(edit.params),
            remove=edit.remove,
            role=None if role is None else role.value,
            created=now,
            created_by=words("by", by),
            moved=now,
        )
        if filter is None:
            return bulk
        if kind == "errors":
            wanted_errors = bulk_error_filter(filter, now)
            since = {"since": to_datetime(wanted_errors["since"])} if "since" in wanted_errors else {}
            found = await self._actions.errors.find(**{**wanted_errors, **since})
            ids = tuple(view.id for view in found.items)
            return msgspec.structs.replace(bulk, filter=_shown(wanted_errors), ids=ids)
        if kind == "jobs":
            bulk_job_filter(filter)
            return msgspec.structs.replace(bulk, filter=_shown(filter))
        lists = self._queries.execution_lists
        wanted = await lists.bulk_filter(filter)
        query = await lists.query(wanted) or ExecutionQuery(states=frozenset())
        until = min(now + 1, query.created_to or now + 1)
        query = msgspec.structs.replace(_possible(query, action), created_to=until)
        shown = {name: getattr(wanted, name) for name in filter if filter[name] is not None}
        return msgspec.structs.replace(bulk, filter=_shown(shown), query=query)

    async def _secrets(self, bulk: BulkRow) -> tuple[str, ...]:
        """The secret paths in new values of parameters. They are those of the jobs that the edit may concern: of all
        jobs, unless it names its executions or their job."""
        if not bulk.params:
            return ()
        if bulk.query is not None and bulk.query.job is not None:
            return union(*(job.spec.secret for job in await self._store.jobs([bulk.query.job])))
        if bulk.ids:
            rows = (await self._actions.read(bulk.ids)).values()
            jobs = await self._store.jobs(sorted({row.job for row in rows}))
            return union(*(row.rules.secret for row in rows), *(job.spec.secret for job in jobs))
        found: set[str] = set()
        names = await self._job_lists.names(JobFilter(), MAX_PAGE)
        while names:
            found.update(*(job.spec.secret for job in await self._store.jobs(names)))
            names = await self._job_lists.names(JobFilter(), MAX_PAGE, after=names[-1])
        return union(found)

    async def _with_total(self, bulk: BulkRow, patience: float = 0.0, most: int = MOST_COUNTED) -> BulkRow:
        """The total is exact up to `most`. If a filter has no index, executions are counted for `patience`
        seconds."""
        if bulk.ids or bulk.target == "errors":  # of which there are never more than 2,000
            return msgspec.structs.replace(bulk, total=len(bulk.ids))
        if bulk.query is None:
            count = (await self._job_lists.page(bulk_job_filter(bulk.filter), limit=1)).total
            exact = isinstance(count, int)
            return msgspec.structs.replace(
                bulk, total=count if isinstance(count, int) else COUNTED, total_is_exact=exact
            )
        if bulk.query.states == frozenset():
            return bulk
        lists = self._queries.execution_lists
        counted = await lists.counted(bulk.query, most)
        if counted is None:
            total, exact = await lists.walked(bulk.query, patience)
        else:
            total, exact = (counted, True) if isinstance(counted, int) else (most, False)
        return msgspec.structs.replace(bulk, total=total, total_is_exact=exact)

    async def _sample(self, bulk: BulkRow) -> list[BulkItemRow]:
        if bulk.target == "jobs":
            names = list(bulk.ids[:SAMPLE]) or await self._job_lists.names(bulk_job_filter(bulk.filter), SAMPLE)
            views = {view.name: view for view in await self._queries.named(names)}
            return [_job_foreseen(bulk, name, views.get(name)) for name in names]
        if bulk.target == "errors":
            return [BulkItemRow(id=id, now=f"{bulk.action}d") for id in bulk.ids[:SAMPLE]]
        if bulk.query is not None:
            if bulk.query.states == frozenset():
                return []
            query = msgspec.structs.replace(bulk.query, limit=SAMPLE)
            rows = (await self._store.search(query, BUDGET)).rows
        else:
            known = await self._actions.read(bulk.ids[:SAMPLE])
            foreseen = {item.id: item for item in await self._actions.foresee(bulk, list(known.values()))}
            return [foreseen.get(id) or rules.refusal(id, ExecutionNotFound(id)) for id in bulk.ids[:SAMPLE]]
        return await self._actions.foresee(bulk, rows)

    # --- steering and reading -----------------------------------------------------------------------------
    async def abort(self, id: str, *, by: str, reason: str | None = None) -> BulkRow:
        """Handle no more items, except those of the page under way."""
        why = f"aborted by {by}" if reason is None else words("reason", reason, MAX_TEXT)
        while True:
            found = await records.open_record(self._store, await self._known(id))
            bulk = (await self.get(id)) if found is None else found[0]
            if found is None or bulk.over:
                raise CommandRefused("abort", bulk.state, ["running", "probing"], f"bulk action {id}")
            if bulk.state == "aborting":
                return bulk
            aborting = msgspec.structs.replace(bulk, state="aborting", reason=why)
            now = await self._store.now()
            audit = audit_record(self._chance, "bulk_abort", f"bulk:{id}", by, now, before=bulk.state, after=why)
            if await records.write_record(self._store, aborting, found[1], audit):
                await self.driver.drive(id)
                return await self.get(id)

    async def get(self, id: str) -> BulkRow:
        found = await records.record(self._store, id) if isinstance(id, str) and id.isascii() else None
        if found is None:
            raise BulkNotFound(id)
        return found

    async def _known(self, id: str) -> str:
        return (await self.get(id)).id

    async def items(
        self, id: str, status: str | None = None, limit: int = 100, after: str | None = None
    ) -> tuple[list[BulkItemRow], str | None]:
        """What became of the items, in the order in which they were handled, and where the next page of them begins.
        `now` of an item whose execution was retried is the present state of the new execution."""
        await self.get(id)
        whole("limit", limit, 1, MAX_PAGE)
        wanted = None if status is None else choice("status", status, get_args(ItemStatus))
        number, place = _place(after)
        found: list[BulkItemRow] = []
        next: str | None = None
        while next is None and (pages := await records.pages(self._store, id, number, 10)):
            for number, page in pages:
                fitting = [
                    (i, item) for i, item in enumerate(page.items) if i >= place and wanted in (None, item.status)
                ]
                room = limit - len(found)
                found += [item for _, item in fitting[:room]]
                if len(fitting) > room:
                    next = f"{number}.{fitting[room][0]}"
                    break
                place = 0
            number += 1
            await asyncio.sleep(0)
        return await self._with_present_states(found), next

    async def _with_present_states(self, items: list[BulkItemRow]) -> list[BulkItemRow]:
        """One read for each new execution. One that was deleted since is `gone`."""
        made = {item.id: item.execution_id for item in items if item.status == "done" and item.execution_id is not None}
        rows = await self._actions.read(list(made.values()))
        states = {id: rows[execution].state.value if execution in rows else "gone" for id, execution in made.items()}
        return [msgspec.structs.replace(item, now=states.get(item.id, item.now)) for item in items]

    async def wait(self, id: str, timeout: float | None = None) -> BulkRow:
        """The bulk once it is over; `TimeoutError` if it is not over in time. The caller helps to carry it out, so it
        ends even if no node runs."""
        clock = asyncio.get_running_loop().time
        end = None if timeout is None else clock() + timeout
        while not (bulk := await self.get(id)).over:
            left = WAIT_POLL if end is None else end - clock()
            if left <= 0:
                raise TimeoutError(f"bulk action {id} is not over after {timeout:g} s; {progress_words(bulk)}")
            delay = await self.driver.drive(id)
            if delay:
                await asyncio.sleep(min(delay, left, WAIT_POLL))
        return bulk

    async def list(self, limit: int = RECENT) -> list[BulkRow]:
        """All bulks that are not over, and the newest ones that are, newest first."""
        opened = await records.opened(self._store)
        closed = await records.newest_closed(self._store, whole("limit", limit, 1, MAX_PAGE))
        by_id = {each.id: each for each in [*opened, *closed]}
        over = sorted(id for id, each in by_id.items() if each.over)[-limit:]
        shown = {*over, *(id for id, each in by_id.items() if not each.over)}
        return [by_id[id] for id in sorted(shown, reverse=True)]


def _job_foreseen(bulk: BulkRow, name: str, view: JobView | None) -> BulkItemRow:
    try:
        if view is None:
            raise JobNotFound(name)
        job = job_of(view)
        rules.may_steer(bulk, job, view.required_role)
        if bulk.action in job_commands.ALLOWED:
            job_commands.check(bulk.action, job, view.state, stats_of(view).last_state)
    except MainspringError as error:
        return rules.refusal(name, error)
    return BulkItemRow(id=name, now=rules.DONE_WORDS[bulk.action])


def progress_words(bulk: BulkRow) -> str:
    total = f"{bulk.total:,}" if bulk.total_is_exact else f"{bulk.total:,}+"
    return f"{bulk.state}, {bulk.handled:,} of {total} handled"


def read_pace(value: Any) -> float:
    """Items per second: a number, or text such as "100/s", "60/m" or "1000/h"."""
    allowed = 'items per second, or text such as "100/s", "60/m" or "1000/h"'
    number, _, unit = value.partition("/") if isinstance(value, str) else (value, "", "")
    seconds = {"": 1, "s": 1, "m": 60, "h": 3600}.get(unit.strip()) if isinstance(unit, str) else None
    try:
        pace = float(number) / (seconds or 0)
    except (TypeError, ValueError, ZeroDivisionError):
        raise InvalidValue("pace", presentable(value), allowed) from None
    if isinstance(value, bool) or not 1 / 3600 <= pace <= FASTEST:
        raise InvalidValue(
            "pace", presentable(value), f"{allowed}; one an hour at least, {FASTEST:,.0f} a second at most"
        )
    return pace


def _edit(action: str, params: Mapping[str, Any] | None, remove: Iterable[str] | None, limit: int) -> ParamsEdit:
    edit = read_edit(params, remove)
    if action == "edit" and not edit:
        raise InvalidValue("params", None, "the parameters to change", "Give params or remove")
    if action != "edit" and edit:
        raise InvalidValue("params", sorted({*edit.params, *edit.remove}), "nothing, except for the action edit")
    encode_payload("params", edit.params, limit)
    return edit


def _probe(probe: Any, action: str) -> bool:
    whole("probe", probe, 0, MOST_PROBED)
    if probe and action not in rules.MAKES_EXECUTIONS:
        raise InvalidValue(
            "probe", probe, "nothing for this action", "A probe needs an action that runs executions: retry or edit"
        )
    return bool(probe)


def _named(ids: Iterable[str]) -> tuple[str, ...]:
    if not (chosen := named(ids)):
        raise InvalidValue("ids", [], f"1 to {MOST:,} of them")
    return chosen


def _possible(query: ExecutionQuery, action: str) -> ExecutionQuery:
    """A filter without a status means the states that permit the action."""
    return query if query.states is not None else msgspec.structs.replace(query, states=_POSSIBLE[action])


def _shown(filter: Mapping[str, Any]) -> dict[str, Any]:
    """The filter as JSON, with absolute instants: "2h ago" would mean something else tomorrow."""
    shown = {name: value for name, value in filter.items() if value is not None}
    for name in ("since", "until"):
        if isinstance(shown.get(name), int):
            shown[name] = to_datetime(shown[name]).isoformat()
    if "longer_than" in shown:
        shown["longer_than"] = shown["longer_than"] / SECOND
    return {name: _json(value) for name, value in shown.items()}


def _json(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else msgspec.to_builtins(list(value))


def _place(after: str | None) -> tuple[int, int]:
    number, dot, index = (after or "0.0").partition(".")
    if not (dot and number.isdecimal() and index.isdecimal() and len(number) <= 8 and len(index) <= 4):
        raise InvalidValue("cursor", after, "the next_cursor of the page before")
    return int(number), int(index)
