"""Starting and steering backfills. Every change writes its audit record in the same step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, get_args

import msgspec

from ...model.backfill import BackfillRow, Only, Order, WindowState
from ...model.errors import BackfillNotFound, CommandRefused
from ...model.events import BackfillBegan
from ...model.job import Job
from ...model.values.ids import Chance, random_id
from ...model.values.reading import choice, duration, whole, words
from ...model.windows import Window, window_between
from ..auditing import audit_record
from ..commands.enqueue import Enqueuer
from ..jobs.job_cache import JobCache
from ..loops import Emit
from ..ports import Store, Topic
from ..rules.window_ledger import Stretch
from . import records, rules
from .driver import drive
from .windows import MANY, MOST, WindowQueries

MAX_CONCURRENCY = 1_000
MAX_TEXT = 1_000
RECENT = 20
WAIT_POLL = 0.5

_ALLOWED = {
    "pause": ("running",),
    "resume": ("paused",),
    "cancel": ("planning", "running", "paused", "cancelling"),
}

Change = Callable[[BackfillRow], BackfillRow]


class Backfills:
    """The commands and queries behind `app.backfills`, the CLI and the HTTP interface."""

    def __init__(
        self,
        store: Store,
        enqueuer: Enqueuer,
        job_cache: JobCache,
        queries: WindowQueries,
        chance: Chance,
        emit: Emit,
    ) -> None:
        self._store, self._enqueuer, self._job_cache, self._queries = store, enqueuer, job_cache, queries
        self._chance, self._emit = chance, emit

    # --- starting -----------------------------------------------------------------------------------------
    async def start(
        self,
        name: str,
        begin: Any = None,
        end: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        order: str = "oldest",
        concurrency: int = 1,
        pace: Any = None,
        only: str = "holes",
        force: bool = False,
        dry_run: bool = False,
        listed: int = MOST,
        note: str | None = None,
        by: str = "system",
    ) -> BackfillRow:
        """Run the windows inside [begin, end) that are not done; with `dry_run`, only list the first `listed` of
        them."""
        job = await self._job_cache.read(name)
        if job.cancelled is not None:
            raise CommandRefused("backfill", "cancelled", ["the job is reactivated"], f"job {name!r}")
        first, last = await self._queries.range(job, begin, end)
        now = await self._store.now()
        backfill = BackfillRow(
            id=random_id(now, self._chance),
            job=job.name,
            job_id=job.id,
            begin=first,
            end=last,
            order=choice("order", order, get_args(Order)),  # type: ignore[arg-type]
            concurrency=whole("concurrency", concurrency, 1, MAX_CONCURRENCY),
            pace=duration("pace", pace, allow_zero=True) or None if pace is not None else None,
            force=bool(force),
            only=choice("only", only, get_args(Only)),  # type: ignore[arg-type]
            params=None if params is None else self._enqueuer.encode_params(job, params),
            secret=() if params is None else job.spec.secret,
            note=None if note is None else words("note", note, MAX_TEXT),
            created=now,
            created_by=words("by", by),
            moved=now,
            tz=job.spec.tz,
        )
        plan, counts = await self._queries.plan(job, first, last, _states(backfill))
        if backfill.order == "newest":
            plan.reverse()
        already_done = 0 if backfill.force else counts["done"]
        backfill = msgspec.structs.replace(
            backfill, total=len(plan), already_done=already_done, already_running=counts["running"]
        )
        if dry_run:
            return msgspec.structs.replace(backfill, id="", state="planned", windows=await _listed(job, plan[:listed]))
        return await self._begin(backfill, job, plan)

    async def _begin(self, backfill: BackfillRow, job: Job, plan: list[Stretch]) -> BackfillRow:
        """Write the record first, in state `planning`: if this process dies, a driver ends it. Then write the list of
        windows. Only then does the backfill start, driven by this process at once."""
        audit = audit_record(
            self._chance, "backfill", f"job:{job.name}", backfill.created_by, backfill.created, after=backfill.id
        )
        if not plan:
            nothing = msgspec.structs.replace(backfill, state="completed", finished=backfill.created)
            await records.close_record(self._store, nothing, audit)
            return nothing
        await records.write_record(self._store, backfill, 0)
        await records.write_plan(self._store, backfill.id, plan)
        running = msgspec.structs.replace(backfill, state="running")
        if not await records.write_record(self._store, running, 1, audit):
            raise CommandRefused(
                "start", "cancelled", ["it is not cancelled while it is planned"], _subject(backfill.id)
            )
        self._emit(BackfillBegan(running))
        await drive(self._store, backfill.id, self._emit)
        return await self.get(backfill.id)

    # --- steering -----------------------------------------------------------------------------------------
    async def pause(self, id: str, *, by: str) -> BackfillRow:
        """Start no more windows; those that have started end as usual."""
        return await self._command("pause", id, by, lambda record: msgspec.structs.replace(record, state="paused"))

    async def resume(self, id: str, *, by: str) -> BackfillRow:
        return await self._command("resume", id, by, lambda record: msgspec.structs.replace(record, state="running"))

    async def cancel(self, id: str, *, by: str, reason: str | None = None) -> BackfillRow:
        """Start no more windows, and cancel those that are live."""
        why = f"the backfill was cancelled by {by}" if reason is None else words("reason", reason, MAX_TEXT)
        return await self._command("cancel", id, by, lambda record: rules.cancelling(record, why))

    async def _command(self, command: str, id: str, by: str, change: Change) -> BackfillRow:
        """A lost race is tried again. The consequences are carried out at once, as far as possible."""
        while True:
            found = await records.open_record(self._store, id)
            record = (await self.get(id)) if found is None else found[0]
            if found is None or record.state not in _ALLOWED[command]:
                raise CommandRefused(command, record.state, _ALLOWED[command], _subject(id))
            now = await self._store.now()
            audit = audit_record(
                self._chance, command, f"backfill:{id}", by, now, before=record.state, after=record.job
            )
            if await records.write_record(self._store, change(record), found[1], audit):
                await drive(self._store, id, self._emit)
                return await self.get(id)

    # --- reading ------------------------------------------------------------------------------------------
    async def get(self, id: str) -> BackfillRow:
        found = await records.record(self._store, id) if isinstance(id, str) and id.isascii() else None
        if found is None:
            raise BackfillNotFound(id)
        return found

    async def list(self, job: str | None = None, limit: int = RECENT) -> list[BackfillRow]:
        """All open backfills and the newest finished ones, newest first."""
        opened = await records.all_records(self._store, records.OPEN)
        closed = await records.all_records(self._store, records.CLOSED)
        by_id = {each.id: each for each in [*closed, *opened] if job in (None, each.job)}
        over = [each for each in by_id.values() if each.over][-whole("limit", limit, 1, 1_000) :]
        return sorted([*over, *(each for each in by_id.values() if not each.over)], key=lambda each: each.id)[::-1]

    async def wait(self, id: str, timeout: float | None = None) -> BackfillRow:
        """The backfill once it has finished; `TimeoutError` if it has not by then."""
        changed = asyncio.Event()
        unsubscribe = self._store.listen(lambda topic: changed.set() if topic in (Topic.ENDED, Topic.ANY) else None)
        patience = asyncio.timeout(timeout)
        try:
            async with patience:
                return await self._until_over(id, changed)
        except TimeoutError:
            if not patience.expired():
                raise
            record = await self.get(id)
            words = f"backfill {id} of job {record.job!r} is not over after {timeout:g} s; {progress_words(record)}"
            raise TimeoutError(words) from None
        finally:
            unsubscribe()

    async def _until_over(self, id: str, changed: asyncio.Event) -> BackfillRow:
        while not (record := await self.get(id)).over:
            changed.clear()
            try:
                async with asyncio.timeout(WAIT_POLL):
                    await changed.wait()
            except TimeoutError:
                pass
        return record


def _states(backfill: BackfillRow) -> tuple[WindowState, ...]:
    """The states of the windows that it runs."""
    wanted: dict[Only, tuple[WindowState, ...]] = {
        "holes": ("missing", "failed"),
        "missing": ("missing",),
        "failed": ("failed",),
    }
    return (*wanted[backfill.only], "done") if backfill.force else wanted[backfill.only]


async def _listed(job: Job, plan: list[Stretch]) -> tuple[Window, ...]:
    """A hundred thousand windows take a second, so other tasks get a turn in between."""
    windows: list[Window] = []
    for start in range(0, len(plan), MANY):
        windows += [window_between(*each, job.spec.tz) for each in plan[start : start + MANY]]
        await asyncio.sleep(0)
    return tuple(windows)


def progress_words(backfill: BackfillRow) -> str:
    return f"{backfill.state}, {backfill.ended} of {backfill.total} windows have ended"


def _subject(id: str) -> str:
    return f"backfill {id}"
