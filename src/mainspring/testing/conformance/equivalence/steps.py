"""The random steps of the equivalence test: each is plain data that becomes one concrete call of a store.

A step names rows and jobs by their position in the reference store at that moment, and is sometimes stale on purpose.
Durations are chosen so that no lease or lock ends exactly when the clock is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from msgspec.structs import replace

from ....core.ports import Store
from ....model.execution import AttemptRecord, ExecutionRow, State, next_token
from ....model.job import Job, JobSpec, encode_spec
from ....model.limits import Limit, encode_limits
from ....model.store.entries import Entry, EntryWrite
from ....model.store.messages import (
    Audit,
    CancelRequest,
    Change,
    ClaimRequest,
    HeartbeatRequest,
    JobWrite,
    LogLine,
    ProgressReport,
    PruneRule,
    WorkerInfo,
)
from ....model.time.instants import Micros, seconds_to_micros
from ....model.triggers import encode_trigger, every
from ...clock import FakeClock

LEASE = 29.999_999
LOCK_TTL = 59.999_999
SILENCE = 9.999_999
DECLARED = encode_spec(JobSpec(handler="work", trigger=encode_trigger(every(minutes=1))))


@dataclass
class Side:
    """One of the two stores, and the tokens of its locks, which differ between stores."""

    store: Store
    lock_tokens: dict[str, int] = field(default_factory=dict)


Action: TypeAlias = Callable[[Side], Awaitable[Any]]


@dataclass
class Script:
    """The state after the steps so far, the same for both stores."""

    clock: FakeClock
    rows: list[ExecutionRow] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)
    entries: dict[str, int] = field(default_factory=dict)  # versions by key
    serial: int = 0

    def row(self, position: int) -> ExecutionRow | None:
        """Running rows come first, then pending and waiting, then finished ones."""
        order = (State.RUNNING, State.PENDING, State.WAITING)
        ranked = sorted(self.rows, key=lambda row: order.index(row.state) if row.state in order else len(order))
        return ranked[position % len(ranked)] if ranked else None

    def new_id(self) -> str:
        """Ids are not in order, like those of several nodes; every other one says when it was made."""
        self.serial += 1
        made = f"{self.clock.now() // 1_000:012x}" if self.serial % 2 else "019b70000000"
        return f"{made[:8]}-{made[8:]}-7000-8000-{self.serial * 7919 % 10_007:012x}"

    def job_id(self, name: str) -> str:
        return self.jobs[name].id if name in self.jobs else f"{name}-0"

    def audit(self, target: str) -> Audit:
        self.serial += 1
        return Audit(id=f"a{self.serial:08}", at=self.clock.now(), actor="ann", action="act", target=target)


@dataclass(frozen=True)
class New:
    """One execution to add; `again` re-adds the row at that position instead."""

    job: str
    queue: str
    handler: str
    priority: int
    delay: float
    unique: str | None
    overlap: str | None
    slots: int
    running: tuple[str | None, str | None] | None
    parent: str | None
    alone: bool
    state: State
    again: int | None
    trigger: str = "enqueue"
    share: str | None = None
    weight: int = 1
    limits: tuple[Limit, ...] = ()
    labels: tuple[str, ...] = ()

    def execution(self, script: Script) -> ExecutionRow:
        known = None if self.again is None else script.row(self.again)
        if known is not None:
            return replace(known, params='{"again":true}', state=State.PENDING)
        now = script.clock.now()
        owned = {"owner": "w1", "token": 1, "lease": now + seconds_to_micros(LEASE), "claimed": now, "started": now}
        fields: dict[str, Any] = owned if self.state is State.RUNNING else {}
        if self.state.final:
            fields = {"finished": now, "started": now - 1_234_567, "todo": self.alone}
        running_unique, running_overlap = self.running or (None, None)
        return ExecutionRow(
            id=script.new_id(),
            job=self.job,
            job_id=script.job_id(self.job),
            queue=self.queue,
            handler=self.handler,
            priority=self.priority,
            created=now,
            due=now + seconds_to_micros(self.delay),
            unique_key=self.unique,
            overlap_key=self.overlap,
            overlap_slots=self.slots,
            running_unique_key=running_unique,
            running_overlap_key=running_overlap,
            staged=self.running is not None and self.state is State.PENDING,
            parent_id=self.parent,
            alone=self.alone,
            state=self.state,
            trigger=self.trigger,
            share=self.share,
            weight=self.weight,
            limits=encode_limits(self.limits),
            labels=self.labels,
            **fields,
        )


@dataclass(frozen=True)
class Add:
    news: tuple[New, ...]
    audited: bool

    def action(self, script: Script) -> Action:
        batch = [new.execution(script) for new in self.news]
        audits = [script.audit("work") for _ in batch] if self.audited else []
        return lambda side: side.store.add(batch, audits)


@dataclass(frozen=True)
class WriteJob:
    """Insert or update; a stale write expects an older version or no job. `plan` is when the job is due."""

    name: str
    stale: str | None
    plan: float | None
    sweep: bool
    paused: bool
    news: tuple[New, ...]

    def action(self, script: Script) -> Action:
        now, known = script.clock.now(), script.jobs.get(self.name)
        script.serial += 1
        fresh = Job(name=self.name, id=f"{self.name}-{script.serial}", declared=DECLARED)
        job = fresh if known is None or self.stale == "incarnation" else known
        seen = None if known is None or self.stale == "unknown" else known.version - int(self.stale == "version")
        changed = job.with_changes(
            next_run=None if self.plan is None else now + seconds_to_micros(self.plan),
            paused=now if self.paused else None,
            resume=now + seconds_to_micros(self.plan) if self.paused and self.plan else None,
            sweep=self.sweep,
            updated=now,
            last_number=77,
        )
        made = [new.execution(script) for new in self.news if new.again is None]
        executions = tuple(replace(execution, job=job.name, job_id=job.id) for execution in made)
        write = JobWrite(job=changed, seen_version=seen, executions=executions, audit=script.audit(self.name))
        return lambda side: side.store.write_jobs([write])


@dataclass(frozen=True)
class Tick:
    """The usual ticks: the plans of jobs move on, and each makes one execution. Stores have a short way for these."""

    news: tuple[New, ...]
    stale: str | None
    plan: float | None

    def action(self, script: Script) -> Action:
        writes = [self._write(script, new) for new in self.news if new.job in script.jobs]
        if self.stale is not None and writes:
            writes[0] = replace(writes[0], seen_version=(writes[0].seen_version or 0) - 1)
        return lambda side: side.store.write_jobs(writes)

    def _write(self, script: Script, new: New) -> JobWrite:
        now, job = script.clock.now(), script.jobs[new.job]
        tick = new.execution(script)
        tick = replace(tick, tick=now, trace_id=tick.id.replace("-", ""))
        next_run = None if self.plan is None else now + seconds_to_micros(self.plan)
        changed = job.with_changes(next_run=next_run, last_tick=now)
        return JobWrite(job=changed, seen_version=job.version, executions=(tick,), only_plan=True)


@dataclass(frozen=True)
class DeleteJob:
    name: str
    stale: bool
    purge: bool

    def action(self, script: Script) -> Action:
        known = script.jobs.get(self.name)
        seen = (known.version if known else 1) - int(self.stale)
        audit = script.audit(self.name)
        return lambda side: side.store.delete_job(self.name, seen, purge=self.purge, audit=audit)


@dataclass(frozen=True)
class Settle:
    """A change of the row at `position`, expected as it is or as a stale decision saw it."""

    position: int
    to: State
    stale: str | None
    delay: float
    keep: bool
    todo: bool
    rescue: bool
    alone: bool
    attempt: bool
    labels: tuple[str, ...] = ()
    limits: str | None = None
    failure: bool = False

    def changes(self, script: Script) -> list[Change]:
        row = script.row(self.position)
        if row is None:
            return []
        now = script.clock.now()
        attempt = (
            AttemptRecord(len(row.attempts) + 1, row.owner or "", now - 1, now, "failed", "é") if self.attempt else None
        )
        change = Change(
            id=row.id,
            expect=row.state,
            token=row.token,
            owner=row.owner,
            to=self.to,
            at=now,
            failures=row.failures + 1,
            crashes=row.crashes + int(self.rescue),
            delay=self.delay,
            alone=self.alone and not self.to.final,
            attempt=attempt,
            reason="r" if self.todo else None,
            error=f"error {self.position}" if self.attempt else None,
            result_json='{"n":1}' if self.keep else None,
            todo=self.todo and self.to.final,
            keep=self.keep,
            rescue=self.rescue,
            labels=self.labels,
            limits=self.limits if self.to is State.PENDING else None,
            failure=f'["{row.id}"]' if self.failure and row.state is State.RUNNING else None,
            audit=script.audit(row.id) if self.attempt else None,
        )
        wrong: dict[str, dict[str, Any]] = {
            "token": {"token": row.token + 1},
            "owner": {"owner": "w9"},
            "state": {"expect": State.WAITING if row.state is not State.WAITING else State.RUNNING},
        }
        return [replace(change, **wrong[self.stale]) if self.stale else change]


@dataclass(frozen=True)
class Complete:
    """The usual endings: first attempts of one owner that completed, in the order of their ids. Stores have a short way
    for these. `stale`: the first of them is under the token of a later claim or of one that was undone, or comes twice;
    or all of them are under an owner who never had them."""

    position: int
    count: int
    stale: str | None
    todo: bool
    measured: bool
    labels: tuple[str, ...] = ()

    def changes(self, script: Script) -> list[Change]:
        first = script.row(self.position)
        if first is None or first.state is not State.RUNNING:
            return []
        others = [
            row for row in script.rows if row.state is State.RUNNING and row.owner == first.owner and row != first
        ]
        rows = sorted([first, *others[: self.count - 1]], key=lambda row: row.id)
        changes = [self._completed(row, script.clock.now()) for row in rows]
        match self.stale:
            case "token":
                changes[0] = replace(changes[0], token=next_token(changes[0].token, 0))
            case "stamp":
                changes[0] = replace(changes[0], token=changes[0].token ^ 1)
            case "owner":
                changes = [replace(change, owner="w9", attempt=_attempt("w9", change.at)) for change in changes]
            case "twice":
                changes.append(changes[0])
            case _:
                pass
        return changes

    def _completed(self, row: ExecutionRow, now: Micros) -> Change:
        attempt = _attempt(row.owner or "", now)
        return Change(
            id=row.id,
            expect=State.RUNNING,
            token=row.token,
            owner=row.owner,
            to=State.COMPLETED,
            at=now,
            failures=0,
            crashes=0,
            attempt=replace(attempt, cpu_ms=1.5) if self.measured else attempt,
            result_json='{"n":1}' if self.measured else None,
            todo=self.todo,
            labels=self.labels,
        )


def _attempt(worker: str, now: Micros) -> AttemptRecord:
    return AttemptRecord(1, worker, now - 1, now, "completed")


@dataclass(frozen=True)
class Claim:
    owner: str
    handlers: frozenset[str]
    queues: frozenset[str] | None
    limit: int
    turn: int
    alone: bool
    without: frozenset[str] = frozenset()

    def request(self) -> ClaimRequest:
        return ClaimRequest(
            owner=self.owner,
            handlers=self.handlers,
            queues=self.queues,
            without_queues=self.without,
            limit=self.limit,
            lease=LEASE,
            turn=self.turn,
            alone=self.alone,
            stamp=self.turn,
        )


@dataclass(frozen=True)
class Exchange:
    settles: tuple[Settle | Complete, ...]
    claim: Claim | None

    def action(self, script: Script) -> Action:
        changes = [change for settle in self.settles for change in settle.changes(script)]
        request = None if self.claim is None else self.claim.request()
        return lambda side: side.store.exchange(changes, request)


@dataclass(frozen=True)
class WorkerMessage:
    """A message about the row at `position`: a heartbeat, a progress report, or a request to cancel it."""

    kind: str
    position: int
    stale: str | None
    labels: tuple[str, ...] = ()

    def action(self, script: Script) -> Action:
        row = script.row(self.position)
        id, token = (row.id, row.token + int(self.stale == "token")) if row else ("nobody", 1)
        owner = "w9" if row is None or row.owner is None or self.stale == "owner" else row.owner
        now = script.clock.now()
        script.reported.add(id)
        if self.kind == "heartbeat":
            worker = WorkerInfo(id=owner, host="h", pid=1, version="v", running=self.position)
            beat = HeartbeatRequest(worker=worker, leases=((id, token),), lease=LEASE)
            return lambda side: asyncio.to_thread(side.store.heartbeat, beat)
        if self.kind == "cancel":
            request = CancelRequest(id=id, token=token, at=now, reason=f"at {now}")
            return lambda side: side.store.request_cancel([request])
        report = ProgressReport(
            id=id,
            token=token,
            owner=owner,
            progress_json='{"done":1}',
            counters_json=None if self.position % 2 else '{"n":2}',
            logs=(LogLine(now, "INFO", f"line {now}", f"shop.{now % 3}"),),
            labels=self.labels,
        )
        return lambda side: side.store.report([report])


@dataclass(frozen=True)
class Advance:
    seconds: float

    def action(self, script: Script) -> Action:
        script.clock.advance(self.seconds)
        return lambda side: side.store.now()


@dataclass(frozen=True)
class TidyUp:
    """Housekeeping: fold statistics, clear a mark, delete an execution or workers, or prune a job's history."""

    kind: str
    position: int
    job: str
    states: frozenset[State]
    age: float | None
    newest: int

    def action(self, script: Script) -> Action:
        if self.kind == "fold":
            return lambda side: _forget_answer(side.store.fold(self.newest + 1))
        if self.kind == "todo_done":
            row = script.row(self.position)
            return lambda side: side.store.todo_done([row.id if row else "nobody"])
        if self.kind == "delete":
            row, audit = script.row(self.position), script.audit("gone")
            return lambda side: side.store.delete_executions([row.id if row else "nobody"], [audit])
        if self.kind == "workers":
            return lambda side: side.store.prune_workers(SILENCE)
        older = None if self.age is None else script.clock.now() - seconds_to_micros(self.age)
        rule = PruneRule(job_id=script.job_id(self.job), states=self.states, older_than=older, newest=self.newest)
        return lambda side: side.store.prune(rule, 1_000)


@dataclass(frozen=True)
class Lock:
    kind: str
    name: str
    owner: str
    stale: bool
    seconds: float

    def action(self, script: Script) -> Action:
        audit = script.audit(self.name)

        async def act(side: Side) -> Any:
            token = side.lock_tokens.get(self.name, 1) - int(self.stale)
            if self.kind == "renew":
                return await side.store.lock_renew(self.name, token, LOCK_TTL)
            if self.kind == "release":
                return await side.store.lock_release(self.name, token, keep_for=self.seconds, audit=audit)
            row = await side.store.lock_take(self.name, self.owner, LOCK_TTL)
            if row is None:
                return None
            assert row.token > side.lock_tokens.get(self.name, 0), "a lock's token must grow"
            side.lock_tokens[self.name] = row.token
            return replace(row, token=0)

        return act


@dataclass(frozen=True)
class WriteEntries:
    """Each write is a key, the difference between the seen and the stored version (None: any version), and whether to
    remove the entry."""

    writes: tuple[tuple[str, int | None, bool], ...]

    def action(self, script: Script) -> Action:
        writes = [self._write(script, *one) for one in self.writes]
        return lambda side: side.store.write_entries(writes)

    def _write(self, script: Script, key: str, off: int | None, remove: bool) -> EntryWrite:
        seen = None if off is None else script.entries.get(key, 0) + off
        audit = script.audit(key)
        entry = Entry(kind="window", scope="s", key=key, body=f'["{audit.id}"]')
        return EntryWrite(entry=entry, seen_version=seen, remove=remove, audit=audit)


Step: TypeAlias = Add | WriteJob | Tick | DeleteJob | Exchange | WorkerMessage | Advance | TidyUp | Lock | WriteEntries


async def _forget_answer(call: Awaitable[Any]) -> None:
    """Stores may leave different numbers of deltas."""
    await call
