"""Job rows, their numbers, statistics and live counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import islice
from operator import attrgetter

import msgspec

from ...core.ports import Topic
from ...model.execution import LIVE
from ...model.job import Job, JobStats, LiveCounts
from ...model.store.messages import (
    Audit,
    DuePage,
    ExecutionQuery,
    JobSnapshot,
    JobWrite,
    JobWritten,
    NewestLive,
)
from ..common.rows import snapshots
from .executions.history import delete_finished
from .executions.insert import add
from .executions.lists import find
from .executions.rows import Row
from .job_lists import listed
from .transaction import Transaction, as_json, stats_of

_COLUMNS = (
    *("name", "id", "version", "origin", "declared", "overrides", "release", "next_run", "last_tick", "anchor"),
    *("paused", "paused_by", "pause_note", "resume", "cancelled", "sweep", "created", "updated", "last_number"),
)
PURGED_AT_ONCE = 1_000

_values_of = attrgetter(*(name for name in _COLUMNS if name not in ("version", "last_number")), "due")


def write_jobs(tx: Transaction, writes: Sequence[JobWrite]) -> list[JobWritten]:
    """The executions of all writes that won are inserted together: a page of ticks shares its statements."""
    won = [_compare_and_set(tx, write) for write in writes]
    winners = [write for write, mine in zip(writes, won, strict=True) if mine]
    added = iter(add(tx, [execution for write in winners for execution in write.executions]))
    if winners:
        tx.topics.add(Topic.JOBS)
    for write in winners:
        tx.audit(write.audit)
    return [
        JobWritten(won=True, added=tuple(islice(added, len(write.executions)))) if mine else JobWritten(won=False)
        for write, mine in zip(writes, won, strict=True)
    ]


def _compare_and_set(tx: Transaction, write: JobWrite) -> bool:
    job = write.job
    if write.only_plan and write.seen_version is not None:
        return _plan(tx, job, write.seen_version)
    if write.seen_version is None:
        won = tx.run("job_insert", *_values_of(job)) == 1
    else:
        won = tx.run("job_update", *_values_of(job), write.seen_version) == 1
    if won:
        tx.run("job_listed", *listed(job))
    return won


def _plan(tx: Transaction, job: Job, seen: int) -> bool:
    """Nearly always the job keeps ticking, and its row in the job list stays as it is."""
    plan = (job.name, job.id, seen, job.next_run, job.last_tick, job.due)
    if job.due is not None and tx.run("job_plan_on", *plan) == 1:
        return True
    won = tx.run("job_plan", *plan) == 1
    if won:
        tx.run("job_planned", job.name, int(job.due is not None))
    return won


def restore_job(tx: Transaction, job: Job) -> int:
    """Insert the row as it is, with its version; 0 when there is a job of that name."""
    added = tx.run("job_restore", *_values_of(job), job.version)
    if added:
        tx.run("job_listed", *listed(job))
    return added


def job_of(row: Row) -> Job:
    fields = dict(zip(_COLUMNS, row, strict=True))
    return Job(**{**fields, "sweep": bool(fields["sweep"])})


def delete_job(tx: Transaction, name: str, seen_version: int, *, purge: bool, audit: Audit | None) -> bool:
    """With `purge`, its history is left for `purge_some`."""
    deleted = tx.value("job_delete", name, seen_version)
    if deleted is None:
        return False
    tx.run("job_unlisted", name)
    tx.audit(audit)
    tx.topics.add(Topic.JOBS)
    if purge:
        tx.run("purge_totals", deleted)
        tx.run("purge_endings", deleted)
        tx.run("purge_mark", deleted)
    return True


def has_purges(tx: Transaction) -> bool:
    """Whether the history of a deleted job is still to be removed."""
    return tx.value("purge_left") is not None


def purge_some(tx: Transaction) -> bool:
    """Delete a part of the history of one purged job; False when nothing is left."""
    job_id = tx.value("purge_left")
    if job_id is None:
        return False
    ids = msgspec.json.decode(tx.value("purge_next", job_id, PURGED_AT_ONCE))
    delete_finished(tx, ids, regardless=True)
    if len(ids) < PURGED_AT_ONCE:
        tx.run("purge_done", job_id)
        tx.run("incarnation_forget", job_id)
    return True


def jobs(tx: Transaction, names: Sequence[str] | None = None) -> list[Job]:
    found = tx.rows("jobs_all") if names is None else tx.rows("jobs_some", as_json(list(names)))
    return [job_of(row) for row in found]


def jobs_after(tx: Transaction, name: str, limit: int) -> list[Job]:
    return [job_of(row) for row in tx.rows("jobs_after", name, limit)]


def job_queues(tx: Transaction) -> list[str]:
    return [queue for (queue,) in tx.rows("job_queues")]


def count_jobs(tx: Transaction, cap: int) -> int:
    return int(tx.value("jobs_count", cap))


def due_jobs(tx: Transaction, limit: int) -> DuePage:
    """One row more than asked for gives the next due time. It is read from the column: `Job.due` decodes the
    specification, and a job that this release cannot decode must not hide the others."""
    found = tx.rows("jobs_due", tx.now, limit + 1)
    next_due = found[limit][0] if len(found) > limit else tx.value("jobs_next_due", tx.now)
    return DuePage(jobs=tuple(job_of(row[1:]) for row in found[:limit]), next_due=next_due, now=tx.now)


def swept(tx: Transaction, limit: int) -> list[Job]:
    return [job_of(row) for row in tx.rows("jobs_swept", limit)]


def job_snapshots(tx: Transaction, names: Sequence[str]) -> list[JobSnapshot]:
    """One transaction reads one snapshot."""
    found = jobs(tx, names)
    ids = [job.id for job in found]
    live = live_counts(tx, ids)
    rows = [row for id in live for row in find(tx, ExecutionQuery(job_id=id, states=LIVE, limit=1))]
    newest = {row.job_id: NewestLive(row.id, row.failures, row.started) for row in rows}
    return snapshots(found, stats(tx, ids), live, newest)


def stats(tx: Transaction, job_ids: Sequence[str] | None = None) -> dict[str, JobStats]:
    wanted, given = ("all", ()) if job_ids is None else ("some", (as_json(list(job_ids)),))
    endings: dict[str, dict[str, int]] = defaultdict(dict)
    for job_id, ending, count in tx.rows(f"endings_{wanted}", *given):
        endings[job_id][ending] = count
    return {row[0]: stats_of(row, endings[row[0]]) for row in tx.rows(f"totals_{wanted}", *given)}


def live_counts(tx: Transaction, job_ids: Sequence[str] | None = None) -> dict[str, LiveCounts]:
    """Running and waiting rows are few and have indexes of their own; the rest is pending."""
    wanted, given = ("all", ()) if job_ids is None else ("some", (as_json(list(job_ids)),))
    running: Counter[str] = Counter(dict(tx.rows("running_counts")))
    waiting: Counter[str] = Counter(dict(tx.rows("waiting_counts")))
    return {
        id: LiveCounts(pending=total - running[id] - waiting[id], running=running[id], waiting=waiting[id])
        for id, total in tx.rows(f"live_counts_{wanted}", *given)
    }
