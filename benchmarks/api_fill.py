"""A database with many jobs and executions for `benchmarks.api`: copies of real ones, put in as `db copy` does."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from mainspring import JobContext, Mainspring, every
from mainspring.app.adapters import SystemClock, make_store
from mainspring.config.load import load
from mainspring.core.views.execution import row_of
from mainspring.core.views.job import job_of
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.job import Job, JobStats
from mainspring.model.store.copy_records import ExecutionRecord, Incarnation, Record, RecordKind
from mainspring.model.store.messages import Audit
from mainspring.model.time.instants import SECOND
from mainspring.model.values.ids import random_id

BATCH = 2_000
SPAN = 30 * 86_400 * SECOND
"""Executions lie within so long before now."""
CHANCE = random.Random(7)


async def fill(url: str, jobs: int, executions: int, audits: int) -> None:
    """So many jobs, a tenth of them paused and few of each other kind; executions of which 1 % failed and 1 % were
    skipped; audit."""
    job, execution = await templates(url)
    store = make_store(load({"database_url": url}), SystemClock())
    await store.open()
    try:
        now = await store.now()
        each = max(1, executions // jobs)
        for kind, records in (
            ("incarnations", _incarnations(jobs, each, execution)),
            ("executions", _executions(jobs, executions, execution, now)),
            ("audits", _audits(jobs, audits, now)),
            ("jobs", _jobs(jobs, each, job, now)),
        ):
            await _copy_in(store, kind, records)  # type: ignore[arg-type]
    finally:
        await store.close()


async def templates(url: str) -> tuple[Job, ExecutionRow]:
    """A job and an execution of it as the engine itself makes them."""
    app = Mainspring(url)

    async def noop(ctx: JobContext) -> int:
        return 1

    app.job("noop")(noop)
    app.schedule("template", noop, every(days=1))
    async with app:
        ended = await app.wait(await app.trigger("template"), timeout=60)
        return job_of(await app.job_view("template")), row_of(ended)


async def _copy_in(store: Any, kind: RecordKind, records: Iterator[Record]) -> None:
    batch: list[Record] = []
    for record in records:
        batch.append(record)
        if len(batch) == BATCH:
            await store.copy_in(kind, batch)
            batch = []
    if batch:
        await store.copy_in(kind, batch)


def name_of(number: int) -> str:
    return f"job-{number:07}"


def _state(number: int) -> State:
    return State.SKIPPED if number % 100 == 50 else State.FAILED if number % 50 == 0 else State.COMPLETED


def _incarnations(jobs: int, each: int, like: ExecutionRow) -> Iterator[Record]:
    for number in range(jobs):
        failed = 1 if number % 50 == 0 else 0
        id = f"{name_of(number)}-id"
        stats = JobStats(
            job_id=id,
            completed=each - failed,
            failed=failed,
            duration_ms=10.0 * each,
            timed=each,
            last_id=like.id,
            last_state=State.FAILED if failed else State.COMPLETED,
            last_started=(like.started or 0) - number * 6_151 % jobs * SECOND,
            last_finished=like.finished,
        )
        yield Incarnation(job_id=id, job=name_of(number), last_number=each, stats=stats)


def _executions(jobs: int, executions: int, like: ExecutionRow, now: int) -> Iterator[Record]:
    for number in range(executions):
        at = now - SPAN + number * SPAN // executions
        name = name_of(number % jobs)
        id = random_id(at, CHANCE)
        made = replace(
            like, id=id, job=name, job_id=f"{name}-id", created=at, due=at, state=_state(number), trace_id=id,
            number=1 + number // jobs, overlap_key=None, started=at, finished=at + SECOND,
        )  # fmt: skip
        yield ExecutionRecord(execution=made)


def _jobs(jobs: int, each: int, like: Job, now: int) -> Iterator[Record]:
    for number in range(jobs):
        name, next_run = name_of(number), now + (3_600 + number) * SECOND
        at = now - SPAN + number * 7919 % jobs * SPAN // jobs
        yield replace(
            like, name=name, id=f"{name}-id", next_run=next_run, last_number=each, created=at, updated=at + SECOND,
            origin="api" if number % 200 == 3 else "code", overrides=_overrides(number),
            paused=now if number % 10 == 0 else None, cancelled=now if number % 500 == 1 else None,
        )  # fmt: skip


def _overrides(number: int) -> str:
    """One job of a hundred has another handler and queue, one of fifty runs on demand, one of 1,000 says what for."""
    changed: dict[str, Any] = {}
    if number % 100 == 7:
        changed |= {"handler": f"handler-{number % 13}", "queue": f"queue-{number % 11}"}
    if number % 50 < 2:
        changed["trigger"] = None
    if number % 1_000 == 5:
        changed["description"] = "The monthly Report for the office"
    return json.dumps(changed)


def _audits(jobs: int, audits: int, now: int) -> Iterator[Record]:
    for number in range(audits):
        at = now - SPAN + number * SPAN // audits
        id = random_id(at, CHANCE)
        yield Audit(id=id, at=at, actor="token:ci", action="pause", target=f"job:{name_of(number % jobs)}")
