"""A busy installation for `benchmarks.triage`: jobs, a history with failures, a backlog, workers, put in as `db copy`
does. Nothing is drawn at random, so two databases of one size hold the same.

One execution in 25 failed, each with one of 40 errors; one in 10 has the search keys `order_id` and `customer`. Half of
what waits is in `queue-00`, and a quarter of everything belongs to `tenant-007`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from benchmarks.api_fill import templates
from mainspring.app.adapters import SystemClock, make_store
from mainspring.config.load import load
from mainspring.core.errors.folding import Folding
from mainspring.core.rules.fingerprint import Frame, fingerprint
from mainspring.model.error_groups import FailureNote, Fingerprint
from mainspring.model.execution import AttemptRecord, ExecutionRow, State, encode_attempts
from mainspring.model.job import Job, JobStats, encode_spec
from mainspring.model.labels import error_label, search_label
from mainspring.model.store.copy_records import ExecutionRecord, Incarnation, Record, RecordKind
from mainspring.model.store.entries import Entry
from mainspring.model.store.messages import Audit, HeartbeatRequest, WorkerInfo
from mainspring.model.time.instants import SECOND
from mainspring.model.values.ids import random_id

BATCH = 2_000
SPAN = 30 * 86_400 * SECOND
"""Executions lie within so long before now."""
QUEUES, TENANTS, GROUPS, HANDLERS, WORKERS = 50, 300, 40, 20, 10
NOISY_TENANT, LONG_QUEUE = "tenant-007", "queue-00"
ORDER, FIRST_ORDER = 4711, 4000
"""The order that somebody asks for, and that of the first execution of the history."""
KINDS = ("ConnectionError", "TimeoutError", "KeyError", "ValueError", "PermissionError")


@dataclass(frozen=True)
class Size:
    jobs: int = 10_000
    finished: int = 1_000_000
    waiting: int = 200_000
    running: int = 200
    noted: int = 20_000
    """Of the last failures, so many come with a note, from which error groups are counted."""


SMALL = Size(jobs=100, finished=2_000, waiting=400, running=20, noted=80)


async def fill(url: str, size: Size) -> None:
    job, like = await templates(url)
    store = make_store(load({"database_url": url}), SystemClock())
    await store.open()
    try:
        now = await store.now()
        made = Filling(size, job, replace(like, overlap_key=None, unique_key=None), now, random.Random(7))
        for kind, records in (
            ("incarnations", made.incarnations()),
            ("executions", made.history()),
            ("executions", made.backlog()),
            ("entries", made.notes()),
            ("audits", made.audits()),
            ("jobs", made.jobs()),
        ):
            await _copy_in(store, kind, records)  # type: ignore[arg-type]
        folding = Folding(store, SystemClock())
        while await folding.fold():
            pass
        for number in range(WORKERS):
            info = WorkerInfo(
                id=worker_of(number), host=f"host-{number}", pid=100 + number, version="0.2.0", lease=30.0
            )
            store.heartbeat(HeartbeatRequest(worker=info, leases=(), lease=30.0))
    finally:
        await store.close()


async def _copy_in(store: Any, kind: RecordKind, records: Iterable[Record]) -> None:
    left = iter(records)
    while batch := list(islice(left, BATCH)):
        await store.copy_in(kind, batch)


# --- names ----------------------------------------------------------------------------------------------------------


def job_of(number: int) -> str:
    return f"job-{number:05}"


def handler_of(job: int) -> str:
    return f"handler-{job % HANDLERS:02}"


def queue_of(job: int) -> str:
    return f"queue-{job % QUEUES:02}"


def tenant_of(number: int) -> str:
    return NOISY_TENANT if number % 4 == 0 else f"tenant-{number * 7919 % TENANTS:03}"


def worker_of(number: int) -> str:
    return f"worker-{number % WORKERS}"


def error_of(number: int) -> tuple[Fingerprint, str]:
    """The first groups have the most failures."""
    group = int(GROUPS * (number * 2_654_435_761 % 2**32 / 2**32) ** 2)
    message = f"step {chr(97 + group % 26)}{group // 26} of order {number} failed: connection refused"
    frame = Frame(f"/srv/shop/part{group}.py", f"shop.part{group}", "run")
    return fingerprint(KINDS[group % len(KINDS)], message, [frame]), message


# --- records --------------------------------------------------------------------------------------------------------


class Filling:
    def __init__(self, size: Size, job: Job, like: ExecutionRow, now: int, chance: random.Random) -> None:
        self._size, self._job, self._like, self._now, self._chance = size, job, like, now, chance
        self._notes: list[Entry] = []

    def incarnations(self) -> Iterator[Record]:
        each = max(1, self._size.finished // self._size.jobs)
        for number in range(self._size.jobs):
            stats = JobStats(
                job_id=f"{job_of(number)}-id",
                completed=each - each // 25,
                failed=each // 25,
                duration_ms=1_000.0 * each,
                timed=each,
                last_id=self._like.id,
                last_state=State.FAILED if number % 25 == 0 else State.COMPLETED,
                last_started=self._now - number * SECOND,
                last_finished=self._now - number * SECOND + SECOND,
            )
            yield Incarnation(job_id=stats.job_id, job=job_of(number), last_number=each, stats=stats)

    def _row(self, number: int, at: int, /, **fields: Any) -> ExecutionRow:
        job, id = number * 31 % self._size.jobs, random_id(at, self._chance)
        labels = (search_label("order_id", str(FIRST_ORDER + number)), search_label("customer", f"c{number % 5_000}"))
        return replace(
            self._like,
            id=id,
            job=job_of(job),
            job_id=f"{job_of(job)}-id",
            handler=handler_of(job),
            queue=fields.pop("queue", queue_of(job)),
            tenant=tenant_of(number),
            created=at,
            due=fields.pop("due", at),
            trace_id=id.replace("-", ""),
            labels=(*(labels if number % 10 == (ORDER - FIRST_ORDER) % 10 else ()), *fields.pop("labels", ())),
            **fields,
        )

    def history(self) -> Iterator[Record]:
        finished = self._size.finished
        first_noted = finished - self._size.noted * 25
        for number in range(finished):
            at = self._now - 60 * SECOND - int(SPAN * (1 - number / finished) ** 3)  # most of them of late
            ended = at + (30 + number * 97 % 970) * SECOND // 1_000
            fields: dict[str, Any] = {"started": at, "finished": ended, "number": 1 + number // self._size.jobs}
            if number % 25:
                yield ExecutionRecord(execution=self._row(number, at, state=State.COMPLETED, **fields))
                continue
            found, message = error_of(number // 25)
            attempt = AttemptRecord(
                number=1, worker=worker_of(number), started=at, ended=ended, end="failed", error=message
            )
            fields |= {"error": f"{found.type}: {message}", "reason": "error", "labels": (error_label(found.group),)}
            fields |= {"attempts_json": encode_attempts([attempt]), "failures": 1}
            row = self._row(number, at, state=State.FAILED, **fields)
            if number >= first_noted:
                self._notes.append(_note(row, found))
            yield ExecutionRecord(execution=row)

    def backlog(self) -> Iterator[Record]:
        """A quarter is planned, the rest is ready; some run, one of them for long."""
        plain: dict[str, Any] = {"state": State.PENDING, "started": None, "finished": None, "result_json": None}
        plain |= {"attempts_json": "[]", "claimed": None, "number": None, "counters_json": None}
        for number in range(self._size.waiting):
            at = self._now - (self._size.waiting - number) * SECOND // 60
            due = self._now + number * SECOND // 10 + 3_600 * SECOND if number % 4 == 3 else at
            queue = {"queue": LONG_QUEUE} if number % 2 == 0 else {}
            yield ExecutionRecord(execution=self._row(number, at, due=due, **queue, **plain))
        for number in range(self._size.running):
            at = self._now - (7_200 if number == 5 else number) * SECOND
            owned = {"owner": worker_of(number), "token": 1 << 32, "lease": self._now + 86_400 * SECOND}
            runs = {**plain, **owned, "state": State.RUNNING, "claimed": at, "started": at}
            yield ExecutionRecord(execution=self._row(number, at, **runs))

    def notes(self) -> Iterator[Record]:
        yield from self._notes

    def audits(self) -> Iterator[Record]:
        for number in range(0, self._size.jobs, 50):
            at = self._now - (self._size.jobs - number) * SECOND
            id = random_id(at, self._chance)
            yield Audit(id=id, at=at, actor="user:ann", action="pause", target=f"job:{job_of(number)}")

    def jobs(self) -> Iterator[Record]:
        for number in range(self._size.jobs):
            overdue = number % 500 == 7
            at = self._now - SPAN + number * SPAN // self._size.jobs
            yield replace(
                self._job,
                name=job_of(number),
                id=f"{job_of(number)}-id",
                declared=self._declared(number),
                next_run=self._now + (-600 if overdue else 3_600 + number) * SECOND,
                paused=self._now - 3_600 * SECOND if number % 50 == 0 else None,
                origin="api" if number % 200 == 3 else "code",
                created=at,
                updated=at + SECOND,
            )

    def _declared(self, number: int) -> str:
        spec = self._job.spec
        tags = (f"team-{number % 12}", "nightly" if number % 3 == 0 else "daily")
        return encode_spec(
            msgspec.structs.replace(
                spec,
                handler=handler_of(number),
                queue=queue_of(number),
                owner=f"owner-{number % 25}",
                tags=tags,
                metadata={"site": f"site-{number % 100}"},
                description="The monthly report for the office" if number % 1_000 == 5 else "",
            )
        )


def _note(row: ExecutionRow, found: Fingerprint) -> Entry:
    at = row.finished or 0
    note = FailureNote(
        group=found.group,
        type=found.type,
        message=found.message,
        frame=found.frame,
        job=row.job,
        tenant=row.tenant,
        release="2.1" if at % 3 else "2.0",
        execution=row.id,
        at=at,
        final=True,
    )
    body = msgspec.json.encode(note).decode()
    return Entry(kind="failure", key=f"{at:016d}/{row.id}", body=body, version=1)
