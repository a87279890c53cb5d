"""A store full of everything, for tests that move it elsewhere."""

from __future__ import annotations

import json
import random

from mainspring.core.ports import Store
from mainspring.model.execution import AttemptRecord, ExecutionRow, State, encode_attempts
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.entries import Entry, EntryKind, EntryWrite
from mainspring.model.store.messages import (
    Audit,
    CancelRequest,
    Change,
    ClaimRequest,
    JobWrite,
    LogLine,
    ProgressReport,
)
from mainspring.model.time.instants import SECOND
from mainspring.model.triggers import encode_trigger, every
from mainspring.model.values.ids import random_id

JOBS = 12
ENTRIES = 1_200  # more than one page
TEXTS = ["", "plain", "ünïcode \U0001f600", 'with "quotes" and \\ and\nnew\tlines', "x" * 3_000, "{}", "NULL"]
SHELVES: list[tuple[EntryKind, str]] = [
    ("window", "job-1"),
    ("window", "job-10"),
    ("window", "über job"),
    ("backfill", "open"),
    ("backfill_plan", "1"),
]
ENDS = [State.COMPLETED] * 6 + [State.FAILED, State.CANCELLED, State.PARTIAL, State.SKIPPED]


class Filler:
    """Deterministic, but for the time it begins at."""

    def __init__(self, store: Store, now: int) -> None:
        self._store = store
        self._chance = random.Random(7)
        self._now = now

    async def fill(self, rows: int) -> None:
        for number in range(JOBS):
            await self._job(number)
        await self._store.write_entries([self._entry(number) for number in range(ENTRIES)])
        for start in range(0, rows, 500):
            batch = [self._execution(self._at(n, rows)) for n in range(start, min(start + 500, rows))]
            added = await self._store.add(batch)
            assert {one.outcome for one in added} <= {"added", "skipped", "unique_taken"}
        await self._work()
        await self._store.delete_job("job-11", 2, purge=False, audit=self._audit("job-11"))
        while await self._store.fold(1_000):
            pass

    def _at(self, n: int, rows: int) -> int:
        """Over the last ninety days, so that months and partitions differ."""
        return self._now - (rows - n) * (90 * 86_400 * SECOND // rows)

    async def _job(self, number: int) -> None:
        trigger = encode_trigger(every(minutes=number + 1)) if number % 2 else None
        declared = encode_spec(JobSpec(handler="work", trigger=trigger, description=TEXTS[number % len(TEXTS)]))
        name = f"job-{number}"
        job = Job(name=name, id=f"{name}-id", declared=declared, created=self._now, updated=self._now, anchor=self._now)
        job = job.with_changes(next_run=self._now + SECOND if trigger else None, release="1.0")
        await self._store.write_jobs([JobWrite(job=job, seen_version=None, audit=self._audit(name))])
        paused = job.with_changes(paused=self._now, paused_by="ada", pause_note="ü", overrides='{"priority":3}')
        await self._store.write_jobs([JobWrite(job=paused if number % 3 == 0 else job, seen_version=1)])

    def _entry(self, number: int) -> EntryWrite:
        """Some are written more than once."""
        kind, scope = self._chance.choice(SHELVES)
        entry = Entry(kind=kind, scope=scope, key=f"{number * 7 // 8:017d}", body=json.dumps({"text": self._text()}))
        return EntryWrite(entry=entry)

    def _audit(self, target: str) -> Audit:
        id = random_id(self._now, self._chance)
        return Audit(id=id, at=self._now, actor="ada", action="write", target=target, after=self._text())

    def _text(self) -> str:
        return self._chance.choice(TEXTS)

    def _execution(self, at: int) -> ExecutionRow:
        pick, number = self._chance, self._chance.randrange(JOBS)
        execution = ExecutionRow(
            id=random_id(at, pick),
            job=f"job-{number}",
            job_id=f"job-{number}-id",
            handler="work",
            queue=pick.choice(["default", "mail"]),
            trigger=pick.choice(["enqueue", "schedule", "api"]),
            params=pick.choice(["{}", '{"a":"ü\\u0000"}', '{"n":[1,2.5,null]}']),
            priority=pick.choice([0, 0, 0, 9]),
            tenant=pick.choice([None, None, "acme"]),
            parent_id=pick.choice([None, None, None, "019b7000-0000-7000-8000-000000000001"]),
            trace_id=pick.choice(["", "ab" * 16]),
            tick=pick.choice([None, at]),
            created=at + pick.choice([0, 0, 0, 3_600 * SECOND]),
            due=at,
        )
        return self._ended(execution) if pick.random() < 0.85 else self._waiting(execution)

    def _ended(self, execution: ExecutionRow) -> ExecutionRow:
        pick, at = self._chance, execution.created
        state = pick.choice(ENDS)
        attempt = AttemptRecord(1, "w0", at + 1, at + pick.randrange(2, 10**7), "failed", error=self._text() or None)
        return _with(
            execution,
            state=state,
            token=pick.randrange(3),
            started=None if state is State.SKIPPED else at + 1,
            finished=at + pick.randrange(2, 10**8),
            failures=pick.randrange(3),
            crashes=pick.randrange(2),
            attempts_json=encode_attempts([attempt] * pick.randrange(3)),
            error=pick.choice([None, self._text()]),
            reason=pick.choice([None, "timeout"]),
            result_json=pick.choice([None, '{"ok":true}', '"\\u0000ü"']),
            counters_json=pick.choice([None, '{"rows":1.5}']),
            metadata_json=pick.choice([None, '{"who":"ada"}']),
        )

    def _waiting(self, execution: ExecutionRow) -> ExecutionRow:
        pick = self._chance
        changes = pick.choice(
            [
                {},
                {"due": self._now + pick.randrange(10**12)},
                {"unique_key": f"u{pick.randrange(10**6)}", "metadata_json": '{"a":1}'},
                {"overlap_key": f"o{pick.randrange(10**6)}", "running_overlap_key": "r", "staged": True},
                {"alone": True, "failures": 2},
                {"state": State.WAITING, "started": execution.created, "token": 1},
            ]
        )
        return _with(execution, **changes)

    async def _work(self) -> None:
        """Some run now, with log lines; some have run, and leave follow-ups to do."""
        request = ClaimRequest(owner="w1", handlers=frozenset({"work"}), queues=None, limit=40, lease=3_600.0)
        rows = (await self._store.exchange([], request)).claimed
        notes = [self._note(row) for row in rows[:20]]
        assert all(await self._store.report(notes))
        asked = [CancelRequest(id=row.id, token=row.token, at=self._now, reason="enough") for row in rows[:3]]
        assert all(await self._store.request_cancel(asked))
        changes = [self._change(row, n) for n, row in enumerate(rows[10:])]
        assert all((await self._store.exchange(changes, None)).applied)

    def _note(self, row: ExecutionRow) -> ProgressReport:
        lines = tuple(LogLine(self._now + n, "INFO", self._text()) for n in range(self._chance.randrange(1, 30)))
        return ProgressReport(id=row.id, token=row.token, owner="w1", progress_json='{"done":3}', logs=lines)

    def _change(self, row: ExecutionRow, n: int) -> Change:
        to = [State.COMPLETED, State.FAILED, State.PENDING][n % 3]
        attempt = AttemptRecord(1, "w1", self._now, self._now + 5, "completed", traceback=self._text())
        return Change(
            id=row.id,
            expect=row.state,
            token=row.token,
            owner=row.owner,
            to=to,
            at=self._now + 7,
            failures=1,
            crashes=0,
            delay=60.0,
            attempt=attempt,
            todo=to is not State.PENDING and n % 2 == 0,
            keep=n % 4 != 0,
        )


def _with(execution: ExecutionRow, **changes: object) -> ExecutionRow:
    return ExecutionRow(**{name: getattr(execution, name) for name in ExecutionRow.__struct_fields__} | changes)  # type: ignore[arg-type]
