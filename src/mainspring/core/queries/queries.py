"""Reading: jobs with their state and numbers, executions, logs, workers."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

import msgspec

from ...model.errors import ExecutionNotFound, InvalidValue, StoreUnavailable
from ...model.execution import ExecutionRow, State
from ...model.job import Job, JobStats, LiveCounts
from ...model.store.messages import Audit, ExecutionQuery, JobSnapshot, LogLine, StorageSize, WorkerInfo
from ...model.time.instants import SECOND, Micros, to_micros
from ...model.values.payload import presentable
from ...model.values.reading import choice, is_identifier, whole, words
from ..deploys.processes import Processes
from ..jobs.job_cache import JobCache
from ..loops import FIRST_PAUSE, LONGEST_PAUSE
from ..ports import Clock, Store, Topic, Unsubscribe
from ..rules.job_roles import own_job
from ..rules.opening_hours import has_hours
from ..views.execution import Execution, RunView, row_of, run_view
from ..views.job import JobView, job_of, with_dependents
from .execution_lists import MAX_FILTER, MAX_PAGE, ExecutionLists

WAIT_POLL = 1.0
FOLLOW_POLL = 0.5
"""Seconds: workers store log lines and progress as often."""
FOLLOW_PAUSE = 0.1
"""Seconds between two looks at least: every execution that ends anywhere wakes all that follow one."""
WALKED = 250
"""Jobs that a walk over all of them reads at once: they hold the event loop for about 10 ms."""
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
EXECUTION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LIVE = frozenset(state for state in State if not state.final)


class Queries:
    def __init__(self, store: Store, job_cache: JobCache, clock: Clock, lease: float) -> None:
        self._store, self._job_cache, self._clock, self._lease = store, job_cache, clock, lease
        self.execution_lists = ExecutionLists(store)
        self._processes = Processes(store)
        self._names_declared: tuple[list[tuple[str, ...]], frozenset[str]] = ([], frozenset())

    # --- jobs ---------------------------------------------------------------------------------------------
    async def jobs(self) -> list[JobView]:
        return with_dependents(await self._summaries(await self._store.jobs(), None, await self._declared()))

    async def walk(self, after: str = "") -> AsyncGenerator[list[JobView], None]:
        """All jobs by name after this one, in pages, so that other work gets its turn in between."""
        declared = await self._declared()
        while jobs := await self._store.jobs_after(after, WALKED):
            yield await self._summaries(jobs, [job.id for job in jobs], declared)
            after = jobs[-1].name

    async def job(self, name: str) -> JobView:
        while not (found := await self.named([name] if is_identifier(name) else [])):
            await self._job_cache.read(name)  # raises JobNotFound
        return found[0]

    async def shown(self, name: str) -> JobView:
        """As `job`, with the applications that declare it with different code."""
        view = await self.job(name)
        found = await self._processes.conflicts(name)
        return msgspec.structs.replace(view, conflict=found[0].declarers) if found else view

    async def named(self, names: Sequence[str]) -> list[JobView]:
        """Those of these jobs that exist, by name, each as it was at one instant."""
        views = await self._views(await self._store.job_snapshots(names), await self._declared()) if names else []
        return list(await asyncio.gather(*(self._with_dependents(view) for view in views)))

    async def _with_dependents(self, view: JobView) -> JobView:
        if not job_of(view).spec.feeds:
            return view
        names = await self._job_cache.dependents.names_of(view.name)
        return msgspec.structs.replace(view, dependents=names)

    async def waiting_for_code(self) -> dict[str, int]:
        """Jobs of code that no running process declares, and how many of their executions wait. It reads live
        executions, never all jobs, of which there may be a million."""
        live = await self._store.live_counts()
        declared = {name for worker in await self.workers() for name in worker.declares}
        known = {job.id for job in await self._store.jobs(sorted(declared))}
        strangers = {id for id, counts in live.items() if counts.pending} - known
        names = [
            execution.job
            for id in sorted(strangers)[:MAX_PAGE]
            for execution in await self._store.find(ExecutionQuery(job_id=id, limit=1))
        ]
        jobs = await self._store.jobs(names) if names else []
        return {job.name: live[job.id].pending for job in jobs if job.origin == "code" and job.id in strangers}

    async def _declared(self) -> frozenset[str] | None:
        """The names of all jobs that running processes declare; None if no process runs."""
        declares = [worker.declares for worker in await self.workers()]
        if (
            declares != self._names_declared[0]
        ):  # ten processes with 10,000 jobs each: putting them together takes 25 ms
            self._names_declared = declares, frozenset(chain.from_iterable(declares))
        return self._names_declared[1] if declares else None

    async def _summaries(
        self, jobs: Sequence[Job], ids: Sequence[str] | None, declared: frozenset[str] | None
    ) -> list[JobView]:
        """Views of many jobs, whose parts are read one after the other."""
        stats, live = await self._store.stats(ids), await self._store.live_counts(ids)
        return await self._views(
            [
                JobSnapshot(job, stats.get(job.id, JobStats(job_id=job.id)), live.get(job.id, LiveCounts()))
                for job in jobs
            ],
            declared,
        )

    async def _views(self, snapshots: Sequence[JobSnapshot], declared: frozenset[str] | None) -> list[JobView]:
        jobs = [each.job for each in snapshots]
        calendars, known = await self._job_cache.calendars.of(jobs), await self._job_cache.own_jobs.of(jobs)
        now = await self._store.now() if any(has_hours(job) for job in jobs) else 0
        return [
            JobView(
                each.job,
                each.stats,
                each.live,
                orphaned=declared is not None and each.job.origin == "code" and each.job.name not in declared,
                _calendars=calendars,
                _seen=now,
                _newest_live=each.newest,
                _own=own_job(each.job, known),
            )
            for each in snapshots
        ]

    # --- executions ---------------------------------------------------------------------------------------
    async def executions(
        self,
        job: str | None = None,
        status: str | Iterable[str] | None = None,
        *,
        limit: int = 50,
        offset: int = 0,
        before: str | None = None,
        system: bool = False,
        **filters: Any,
    ) -> list[ExecutionRow]:
        """One page of executions, newest first, live and finished."""
        wanted = await self.execution_lists.filter({"job": job, "status": status, **filters}, system=system)
        return (await self.execution_lists.page(wanted, limit=limit, offset=offset, cursor=before)).rows

    async def newest_runs(
        self, jobs: Iterable[JobView], limit: int = 30, since: datetime | None = None
    ) -> dict[str, list[RunView]]:
        """The newest runs of each of these jobs, by its name, newest first; children of tenants are no runs. With
        `since`, only those created since then. One call of the store; its cost is bounded for each job."""
        ids = {job_of(view).id: view.name for view in jobs}
        found = await self._store.newest_runs(list(ids), limit, None if since is None else to_micros(since))
        return {name: [run_view(run) for run in found.get(id, ())] for id, name in ids.items()}

    async def number(self, executions: Iterable[ExecutionRow]) -> bool:
        """Whether some of these got their number only now. Executions that were enqueued or triggered may get it up to
        some seconds after they end, when statistics are folded; a reader need not wait for that."""
        if all(row.number is not None or not row.state.final for row in executions):
            return False
        await self._store.fold(MAX_PAGE)
        return True

    async def get(self, id: str) -> ExecutionRow:
        known = id_of(id)
        execution = await self._store.execution(known) if known.isascii() else None
        if execution is None:
            raise ExecutionNotFound(id)
        return execution

    async def logs(
        self, execution: Execution | ExecutionRow | str, after: int = 0, level: str | None = None
    ) -> list[tuple[int, LogLine]]:
        """The newest lines, oldest first; with `level`, those of this level and above."""
        id, least = id_of(execution), _least(level)
        await self.get(id)
        return [(number, line) for number, line in await self._store.logs(id, after) if is_at_least(line, least)]

    async def wait(self, execution: Execution | ExecutionRow | str, timeout: float | None = None) -> ExecutionRow:
        """Wait until an execution has ended; `TimeoutError` if it has not by then."""
        id = id_of(execution)
        changed = asyncio.Event()
        unsubscribe = self._store.listen(lambda topic: changed.set() if topic in (Topic.ENDED, Topic.ANY) else None)
        try:
            return await self._until_final(id, _row(execution), changed, timeout)
        finally:
            unsubscribe()

    async def _until_final(
        self, id: str, seen: ExecutionRow | None, changed: asyncio.Event, timeout: float | None
    ) -> ExecutionRow:
        """The timeout takes effect between two reads, never during one: a driver that is cancelled while it reads drops
        its connection, and PyMongo sometimes swallows the cancellation."""
        clock = asyncio.get_running_loop().time
        end = None if timeout is None else clock() + timeout
        while True:
            changed.clear()
            execution = await self._store.execution(id) or _not_kept(id, seen)
            if execution.state.final:
                return execution
            seen = execution
            left = WAIT_POLL if end is None else min(WAIT_POLL, end - clock())
            if left <= 0:
                words = f"execution {id} of job {seen.job!r} has not ended after {timeout:g} s; it is {seen.state}"
                raise TimeoutError(words)
            await _set_within(changed, left)

    async def follow(
        self, execution: Execution | ExecutionRow | str, after: int = 0, level: str | None = None
    ) -> AsyncGenerator[tuple[int, LogLine] | ExecutionRow, None]:
        """The numbered log lines after this one, and the row whenever it has changed, as both appear in the store; the
        last item is the row of the ended execution.

        A worker stores lines before the ending, and here the row is read before the lines: none is missed. Once it has
        begun it waits until a store that is away is back.
        """
        id, seen, least = id_of(execution), _row(execution), _least(level)
        changed, shown = asyncio.Event(), None
        unsubscribe = self._store.listen(lambda topic: changed.set() if topic in (Topic.ENDED, Topic.ANY) else None)
        try:
            while True:
                changed.clear()
                found, lines = await self._row_and_lines(id, after, patient=shown is not None)
                seen = found or _not_kept(id, seen)
                for number, line in lines:
                    after = number
                    if is_at_least(line, least):
                        yield number, line
                if seen.state.final or (live := _live_fields(seen)) != shown:
                    yield seen
                if seen.state.final:
                    return
                shown = live
                await asyncio.sleep(FOLLOW_PAUSE)
                await _set_within(changed, FOLLOW_POLL - FOLLOW_PAUSE)
        finally:
            unsubscribe()

    async def _row_and_lines(
        self, id: str, after: int, patient: bool
    ) -> tuple[ExecutionRow | None, list[tuple[int, LogLine]]]:
        pause = FIRST_PAUSE
        while True:
            try:
                row = await self._store.execution(id)
                return row, [] if row is None else await self._store.logs(id, after)
            except StoreUnavailable:
                if not patient:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    # --- the rest -----------------------------------------------------------------------------------------
    def listen(self, callback: Callable[[], None]) -> Unsubscribe:
        """Call back when something may have changed, here or in another process: see `Store.listen`."""
        return self._store.listen(lambda topic: callback())

    async def now(self) -> Micros:
        """The store's time."""
        return await self._store.now()

    async def storage_size(self) -> StorageSize:
        """What the store is and how large it is."""
        return await self._store.storage_size()

    async def workers(self) -> list[WorkerInfo]:
        """Processes with a heartbeat within their lease; those without one are judged by the lease of this process."""
        now = await self._store.now()
        return [worker for worker in await self._store.workers() if not self.is_silent(worker, now)]

    async def silent_workers(self) -> list[WorkerInfo]:
        """Processes that neither stopped nor sent a heartbeat within their lease; they are forgotten after an hour."""
        now = await self._store.now()
        return [worker for worker in await self._store.workers() if self.is_silent(worker, now)]

    def is_silent(self, worker: WorkerInfo, now: Micros) -> bool:
        """Whether it has sent no heartbeat within its lease."""
        return worker.seen < now - int((worker.lease or self._lease) * SECOND)

    async def release_of(self, worker: str) -> str:
        """The release of the application that this process runs, or ran; "" if it is not known any more."""
        return await self._processes.release_of(worker)

    async def audits(self, target: str | None = None, limit: int = 100) -> list[Audit]:
        return await self._store.audits(_filter("target", target), whole("limit", limit, 1, MAX_PAGE))


def id_of(execution: Any) -> str:
    """The id meant by an execution or its id."""
    if isinstance(execution, str):
        return execution
    if isinstance(execution, Execution | ExecutionRow):
        return execution.id
    remedy = "enqueue gives None when the unique key is taken" if execution is None else ""
    raise InvalidValue("execution", presentable(execution), "an execution, or its id", remedy)


def _least(level: str | None) -> int:
    if level is None:
        return 0
    return logging.getLevelNamesMapping()[choice("level", level.upper() if isinstance(level, str) else level, LEVELS)]


def is_at_least(line: LogLine, least: int) -> bool:
    """Whether the level of the line is this one or above. Levels that only its own application has named pass."""
    if least <= 0:
        return True
    name = line.level.removeprefix("Level ")
    number = int(name) if name.isdecimal() else logging.getLevelNamesMapping().get(name, least)
    return number >= least


def _live_fields(row: ExecutionRow) -> tuple[Any, ...]:
    """What may change until it ends."""
    reports = row.progress_json, row.counters_json
    return (row.state, row.token, row.owner, *reports, row.reason, row.error, row.cancel_requested)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _row(execution: Execution | ExecutionRow | str) -> ExecutionRow | None:
    if isinstance(execution, str):
        return None
    return row_of(execution) if isinstance(execution, Execution) else execution


def _filter(field: str, text: str | None) -> str | None:
    return None if text is None else words(field, text, MAX_FILTER)


def _not_kept(id: str, seen: ExecutionRow | None) -> ExecutionRow:
    """An execution that existed and is gone: its job keeps no successes, and only successes are deleted at once."""
    if seen is None or not seen.readable or seen.rules.keep_success:
        raise ExecutionNotFound(id)
    return msgspec.structs.replace(seen, state=State.COMPLETED, reason="not kept")


def states_of(status: str | Iterable[str] | None) -> frozenset[State] | None:
    """The states of a filter, checked; None when it lets all through."""
    if status is None:
        return None
    names = list(status) if isinstance(status, Iterable) and not isinstance(status, str) else [status]
    for name in names:
        if name not in list(State):
            raise InvalidValue("status", presentable(name), ", ".join(State))
    return frozenset(State(name) for name in names)
