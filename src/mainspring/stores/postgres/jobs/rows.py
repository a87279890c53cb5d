"""Job rows, statistics and live counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from ....core.ports import EnqueueTemplate, Topic, enqueue_templates
from ....model.execution import State
from ....model.job import Job, JobStats, LiveCounts
from ....model.limits import Limit
from ....model.store.messages import Audit, DuePage, JobSnapshot, JobWrite, JobWritten, NewestLive
from ...common.rows import search_text
from ..connection.pool import Row
from ..database import Database, KeyHeld
from ..executions.insert import SortedRows, sorted_by_kind
from ..executions.literals import storable_texts, texts
from ..executions.rows import as_json, lane_of
from ..statements import sql
from .ticks import is_simple, write_ticks

_COLUMNS = (
    *("name", "id", "version", "origin", "declared", "overrides", "release", "next_run", "last_tick", "anchor"),
    *("paused", "paused_by", "pause_note", "resume", "cancelled", "sweep", "created", "updated", "last_number"),
)
_STATS = JobStats.__struct_fields__
PURGED_AT_ONCE = 1_000
WRITTEN_AT_ONCE, READ_AT_ONCE = 200, 500  # jobs in one statement

Numbered = tuple[int, JobWrite]
Way = Callable[[Database, Sequence[JobWrite]], Awaitable[list[JobWritten]]]


async def write_jobs(db: Database, writes: Sequence[JobWrite]) -> tuple[list[JobWritten], set[Topic]]:
    """In the order of names within one statement, so that two schedulers never wait for each other. If one of the
    writes needs a key that an open transaction holds, each is written separately, and that one is left for later. So
    many at a time that no row stays locked for long."""
    written = [JobWritten(won=False)] * len(writes)
    for batch in rounds(writes):
        for way, wanted in ((write_ticks, True), (_write_all, False)):
            some = [item for item in batch if is_simple(item[1]) is wanted]
            for start in range(0, len(some), WRITTEN_AT_ONCE):
                part = some[start : start + WRITTEN_AT_ONCE]
                for (n, _), one in zip(part, await _write(db, [write for _, write in part], way), strict=True):
                    written[n] = one
    return written, _topics(written)


async def _write(db: Database, writes: list[JobWrite], way: Way) -> list[JobWritten]:
    try:
        return await way(db, writes)
    except KeyHeld:
        return [one for write in writes for one in await _write_alone(db, write)]


async def _write_alone(db: Database, write: JobWrite) -> list[JobWritten]:
    try:
        return await _write_all(db, [write])
    except KeyHeld:
        return [JobWritten(won=False)]


async def _write_all(db: Database, writes: Sequence[JobWrite]) -> list[JobWritten]:
    kinds = [sorted_by_kind(write.executions) for write in writes]
    text = as_json([_wire(write, kind) for write, kind in zip(writes, kinds, strict=True)])
    ticks = any(write.executions for write in writes)  # nothing else asks for keys
    answers = msgspec.json.decode(await db.value("write_jobs", text, patient=not ticks))
    return [_written(kind, answer) for kind, answer in zip(kinds, answers, strict=True)]


def rounds(writes: Sequence[JobWrite]) -> list[list[Numbered]]:
    """Numbered writes in the order of names, no name twice. Nearly always one round."""
    left, result = list(enumerate(writes)), []
    while left:
        batch = {write.job.name: (n, write) for n, write in reversed(left)}
        result.append([batch[name] for name in sorted(batch)])
        taken = {n for n, _ in batch.values()}
        left = [item for item in left if item[0] not in taken]
    return result


def _wire(write: JobWrite, kinds: SortedRows) -> dict[str, Any]:
    row = job_row(write.job, (write.seen_version or 0) + 1)
    return {"job": row, "seen": write.seen_version, "audit": write.audit} | kinds.wire()


def job_row(job: Job, version: int) -> dict[str, Any]:
    fields = {name: getattr(job, name) for name in _COLUMNS if name != "last_number"}
    return fields | {"version": version, "due": job.due, "template": template(job)}


# --- templates for mainspring.enqueue -------------------------------------------------------------------------------

_DIFFERING = ("policy", "overlap_key", "running_overlap_key", "running_unique_key", "staged", "overlap_slots", "share")


def template(job: Job) -> str:
    """What `mainspring.enqueue` makes executions of this job from, and what lists of jobs are filtered by."""
    return _template(job.name, job.id, job.declared, job.overrides)


@lru_cache(maxsize=4_096)
def _template(name: str, id: str, declared: str, overrides: str) -> str:
    """`row` is the execution of a request that names neither a tenant nor two unique keys; the other templates hold
    what differs from it. What is None or false is left out of `row`."""
    job = Job(name=name, id=id, declared=declared, overrides=overrides)
    made = enqueue_templates(job)
    row, stages = _differing(made.plain), _differing(made.stages)
    tenant, tenant_stages = _differing(made.tenant), _differing(made.tenant_stages)
    first = made.plain.execution
    common = {"handler": first.handler, "queue": first.queue, "priority": first.priority, "params": first.params}
    templates = {
        "row": common | {name: value for name, value in row.items() if value not in (None, False)},
        "stages": _changes(row, stages),
        "tenant": _changes(row, tenant),
        "tenant_stages": _changes(tenant, tenant_stages),
        "search": search_text(job),
        "labels": storable_texts(job.labels),
    }
    search = {"search_keys": made.plain.search} if made.plain.search else {}
    return as_json(templates | search)


def _differing(made: EnqueueTemplate) -> dict[str, Any]:
    """The fields in which the templates of one job may differ."""
    execution = made.execution
    fields = {name: getattr(execution, name) for name in _DIFFERING}
    keys = [(limit.key, _numbers(limit)) for limit in made.limits]
    open_queue = replace(execution, queue="{queue}", share=None)
    lanes = [lane_of(open_queue), lane_of(replace(open_queue, share=""))]
    return fields | {"limits": keys or None, "weights": made.weights or None, "lanes": lanes}


def _numbers(limit: Limit) -> str:
    """The end of a limit in JSON, after its key."""
    return as_json(limit).removeprefix(as_json({"key": limit.key})[:-1])


def _changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in after.items() if before[name] != value}


# --- reading --------------------------------------------------------------------------------------------------------


def _written(kinds: SortedRows, answer: dict[str, Any] | None) -> JobWritten:
    if answer is None:
        return JobWritten(won=False)
    added = kinds.answer(answer.get("known") or (), answer.get("outcomes") or ())
    return JobWritten(won=True, added=tuple(added))


def _topics(written: Sequence[JobWritten]) -> set[Topic]:
    topics = {Topic.JOBS} if any(one.won for one in written) else set()
    return topics | {Topic.WORK} if any(one.added for one in written) else topics


def job_of(row: Row) -> Job:
    return Job(**dict(zip(_COLUMNS, row, strict=True)))


async def delete_job(
    db: Database, name: str, seen_version: int, *, purge: bool, audit: Audit | None
) -> tuple[bool, set[Topic]]:
    record = None if audit is None else as_json(audit)
    deleted = await db.value("delete_job", name, seen_version, purge, record)
    if deleted is not None and purge:
        await purge_all(db)
    return deleted is not None, {Topic.JOBS} if deleted is not None else set()


async def purge_all(db: Database) -> None:
    """In small steps, so that nothing is locked for long; `fold` does what a crash left undone."""
    while await db.value("purge_some", PURGED_AT_ONCE):
        pass


async def fold(db: Database, limit: int) -> int:
    """Merge statistics into the totals; first finish purges that were interrupted."""
    if await db.value("purge_left", repeat=True) is not None:
        await purge_all(db)
    return int(await db.value("fold", limit))


async def jobs(db: Database, names: Sequence[str] | None = None) -> list[Job]:
    if names is None:
        return [job_of(row) for row in await db.rows("jobs_all", repeat=True)]
    wanted = sorted(set(names))
    parts = [wanted[start : start + READ_AT_ONCE] for start in range(0, len(wanted), READ_AT_ONCE)]
    return [job_of(row) for part in parts for row in await db.rows("jobs", texts(part), repeat=True)]


async def job_snapshots(db: Database, names: Sequence[str]) -> list[JobSnapshot]:
    text = _snapshots_sql(db.schema)
    rows = await db.query(text, [texts(sorted(set(names))) or "{}"], repeat=True)
    return [_snapshot_of(row) for row in rows]


@lru_cache
def _snapshots_sql(schema: str) -> str:
    """The statement, with those for jobs and for statistics inside. Statistics are those of the jobs found."""
    found = "(SELECT coalesce(json_agg(job.id), '[]')::text FROM job)"
    return sql("job_snapshots", schema).format(
        columns=", ".join(_COLUMNS),
        jobs=sql("jobs", schema),
        totals=", ".join(_STATS),
        stats=sql("stats", schema).replace("$1::text IS NULL OR ", "").replace("$1::text", found),
    )


def _snapshot_of(row: Row) -> JobSnapshot:
    job, stats, live = row[: len(_COLUMNS)], row[len(_COLUMNS) : -6], row[-6:]
    pending, running, waiting, *newest = live
    return JobSnapshot(
        job_of(job),
        JobStats(job_id=job[1]) if stats[0] is None else _stats_of(stats),
        LiveCounts(pending=pending, running=running, waiting=waiting),
        None if newest[0] is None else NewestLive(*newest),
    )


async def job_queues(db: Database) -> list[str]:
    return [queue for (queue,) in await db.rows("job_queues", repeat=True)]


async def jobs_after(db: Database, name: str, limit: int) -> list[Job]:
    return [job_of(row) for row in await db.rows("jobs_after", name, limit, repeat=True)]


async def count_jobs(db: Database, cap: int) -> int:
    return int((await db.rows("jobs_count", cap, repeat=True))[0][0])


async def due_jobs(db: Database, limit: int) -> DuePage:
    """One row more than asked for gives the time of the next page: by its column, because `Job.due` reads the
    specification, and a job that this release cannot read must not hide all others."""
    rows = await db.rows("jobs_due", limit + 1, repeat=True)
    now, upcoming = rows[0][0], rows[0][1]
    found = [row[2:] for row in rows if row[2] is not None]
    next_due = found[limit][0] if len(found) > limit else upcoming
    return DuePage(jobs=tuple(job_of(row[1:]) for row in found[:limit]), next_due=next_due, now=now)


async def swept(db: Database, limit: int) -> list[Job]:
    return [job_of(row) for row in await db.rows("jobs_swept", limit, repeat=True)]


async def stats(db: Database, job_ids: Sequence[str] | None = None) -> dict[str, JobStats]:
    wanted = None if job_ids is None else as_json(list(job_ids))
    return {row[0]: _stats_of(row) for row in await db.rows("stats", wanted, repeat=True)}


def _stats_of(row: Row) -> JobStats:
    fields = dict(zip(_STATS, row, strict=True))
    state, counts = fields["last_state"], fields["by_trigger"]
    by_trigger = {} if counts is None else msgspec.json.decode(counts, type=dict[str, int])
    return JobStats(**{**fields, "last_state": None if state is None else State(state), "by_trigger": by_trigger})


async def live_counts(db: Database, job_ids: Sequence[str] | None = None) -> dict[str, LiveCounts]:
    if job_ids is None:
        rows = await db.rows("live_counts_all", repeat=True)
    else:
        rows = await db.rows("live_counts_some", as_json(list(job_ids)), repeat=True)
    return {
        job_id: LiveCounts(pending=pending, running=running, waiting=rest) for job_id, pending, running, rest in rows
    }
