"""What the ledger knows: rows, held keys, jobs and their schedules, audit records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mainspring.model.execution import ExecutionRow, State
from mainspring.model.job import Job
from mainspring.model.store.messages import Added, Audit, JobWrite, JobWritten
from mainspring.model.time.instants import SECOND, Micros
from tests.simulator.journal import Journal
from tests.simulator.judge import Judge, short
from tests.simulator.process import Process, StoreClock
from tests.simulator.rows import Row
from tests.simulator.schedule import Schedule

CLOCK_SLACK = 20 * SECOND
"""By how much an instant that a process writes may differ from the time it arrives, while the store's clock is steady:
replies are lost and endings sent again. Wall clocks of nodes are off by much more."""

LONG_AGO = 60.0
WAITERS_AT_ONCE = 20


class Books:
    def __init__(self, judge: Judge, journal: Journal, clock: StoreClock) -> None:
        self.judge, self.journal, self.clock = judge, journal, clock
        self.loop = asyncio.get_running_loop()
        self.rows: dict[str, Row] = {}
        self.unique: dict[str | None, str] = {}
        self.overlap: dict[str | None, str] = {}
        self.jobs: dict[str, Job] = {}
        self.schedules: dict[str, Schedule] = {}
        self.processes: dict[str, Process] = {}
        """Processes by the identity of the node that runs in them."""
        self.audits: list[Audit] = []
        self._live: dict[str, Row] = {}
        self._cancelled: dict[str, float] = {}

    def live(self) -> Iterable[Row]:
        return self._live.values()

    def of_job(self, job_id: str) -> Iterator[Row]:
        return (row for row in self._live.values() if row.given.job_id == job_id)

    def audited(self, *audits: Audit | None) -> None:
        self.audits.extend(audit for audit in audits if audit is not None)

    def jumped_since(self, at: float) -> bool:
        return self.clock.last_jump >= at

    def check_time(self, who: Process, at: Micros, what: str) -> None:
        """Whatever its own clock says, a process writes the store's time."""
        if self.jumped_since(0) or not who.sound_since(self.loop.time() - LONG_AGO):
            return
        off = abs(at - self.clock.now())
        self.judge.check(off <= CLOCK_SLACK, "time is store time", f"{what} {off / SECOND:.1f} s off")

    # --- executions ---------------------------------------------------------------------------------------
    def add(self, who: Process, given: ExecutionRow, added: Added) -> bool:
        """Take note of one insert, and check the answer; True if something was recorded."""
        self.judge.note(who.name, f"add {short(given.id)} {given.job} by {given.trigger}: {added.outcome}")
        match added.outcome:
            case "duplicate":
                known = given.id in self.rows
                self.judge.check(known, "nothing is lost", f"{short(given.id)} was taken for a duplicate")
                return False
            case "unique_taken":
                taken = given.unique_key in self.unique
                self.judge.check(taken, "a free key admits", f"{given.unique_key} is free, {short(given.id)} refused")
                self.judge.count("unique refused")
                return False
            case "skipped":
                free = [key for key in _choices(given) if key not in self.overlap]
                self.judge.check(not free, "a free key admits", f"{given.job} is free, {short(given.id)} skipped")
                self.judge.count("overlaps skipped")
                self._record(given, skipped=True)
            case "added":
                self._record(given, skipped=False)
        return True

    def _record(self, given: ExecutionRow, skipped: bool) -> None:
        if given.id in self.rows:
            self.judge.fail("nothing happens twice", f"{short(given.id)} of job {given.job} was added again")
            return
        row = Row(given, self.loop.time())
        self.rows[row.id] = row
        if skipped:
            row.state, row.finished = State.SKIPPED, given.created
        if not row.live:
            return
        if given.overlap_slots > 1:
            row.take_slot(next((key for key in _choices(given) if key not in self.overlap), f"{row.overlap}#?"))
        self._live[row.id] = row
        self.hold(row)

    def hold(self, row: Row) -> None:
        """The row is live and holds its keys from now on: no other may."""
        for kind, key, held in (("unique", row.unique, self.unique), ("overlap", row.overlap, self.overlap)):
            if key is None:
                continue
            if key in held:
                self.judge.fail("keys are held once", f"{kind} key {key}: {short(held[key])} and {short(row.id)}")
            held[key] = row.id
        self._live[row.id] = row
        self._check_company(row)

    def let_go(self, row: Row) -> None:
        """The row gives up its keys: it ended, or is about to switch them. Of those that wait for one, the first of
        each lane is due at once. A row that was due and ends before it was claimed passes its turn on."""
        for key, held in ((row.unique, self.unique), (row.overlap, self.overlap)):
            if key is not None:
                held.pop(key, None)
        if row.live:
            return
        self._live.pop(row.id, None)
        now = self.clock.now()
        passes = row.staged and row.due <= now
        waiting = [other for other in self._live.values() if other.deferred and other.due > now]
        for kind in ("unique", "overlap"):
            for key in {getattr(row, kind), getattr(row, f"running_{kind}") if passes else None} - {None}:
                mine = [other for other in waiting if getattr(other, f"running_{kind}") == key]
                first = sorted(mine, key=lambda other: (-other.given.priority, other.id))[:WAITERS_AT_ONCE]
                for other in {each.lane: each for each in reversed(first)}.values():
                    other.due = now

    def _check_company(self, row: Row) -> None:
        """Without looking at keys: how many of a job are alive at once, by the policy each was made under."""
        if not row.exclusive:
            return
        company = [other for other in self.of_job(row.given.job_id) if other.exclusive and other is not row]
        alive = [other for other in company if other.given.rules.overlap == "skip"]
        running = [other for other in company if other.state is State.RUNNING]
        waiting = [other for other in company if other.staged]
        if row.given.rules.overlap == "skip":
            others = alive or running
        else:
            others = (alive or running) if row.state is State.RUNNING else waiting
        if others:
            both = f"{short(row.id)} and {short(others[0].id)}"
            self.judge.fail("overlap policy holds", f"{row.given.job} ({row.given.rules.overlap}): {both}")

    # --- jobs ---------------------------------------------------------------------------------------------
    def _on_write_jobs(self, who: Process, reply: list[JobWritten], writes: Sequence[JobWrite]) -> None:
        for write, written in zip(writes, reply, strict=True):
            self._write(who, write, written)

    def _write(self, who: Process, write: JobWrite, written: JobWritten) -> None:
        job, before = write.job, self.jobs.get(write.job.name)
        seen = None if before is None else (before.id, before.version)
        expected = None if write.seen_version is None else (job.id, write.seen_version)
        where = f"job {job.name} v{write.seen_version} with {len(write.executions)} executions"
        self.judge.note(who.name, f"{'write' if written.won else 'lost'} {where} next {job.next_run}")
        if written.won != (seen == expected):
            self.judge.fail("one write wins", f"{where} {'won' if written.won else 'lost'} over {seen}")
        if not written.won:
            self.judge.count("lost races")
            return
        after = job.with_changes(version=(write.seen_version or 0) + 1)
        self.jobs[job.name] = after
        self.audited(write.audit)
        self._check_swept(before, after)
        wrong = self.schedules.setdefault(job.id, Schedule(job.name)).written(before, after, write.executions)
        self.judge.check(wrong is None, "ticks are exact", wrong or "")
        for execution, added in zip(write.executions, written.added, strict=True):
            self.judge.count("catch-ups", int(execution.trigger == "catch_up"))
            self.judge.count("gaps", int(execution.reason == "missed"))
            self.add(who, execution, added)
            self.judge.check(added.outcome != "duplicate", "nothing happens twice", f"tick {execution.id} {job.name}")

    def _check_swept(self, before: Job | None, after: Job) -> None:
        """The mark goes only when nothing of the cancelled job is left that has not been told to stop."""
        if after.sweep and (before is None or not before.sweep):
            self._cancelled[after.id] = self.loop.time()
        if before is None or not before.sweep or after.sweep or after.cancelled is None:
            return
        cancelled = self._cancelled[after.id]
        left = [row for row in self.of_job(after.id) if not row.asked and row.added_at < cancelled]
        self.judge.check(not left, "cancelled jobs stop", f"{after.name}: {[short(row.id) for row in left]} go on")

    def _on_delete_job(self, who: Process, reply: bool, name: str, seen_version: int, **options: Any) -> None:
        job = self.jobs.get(name)
        right = reply == (job is not None and job.version == seen_version)
        self.judge.check(right, "one write wins", f"deletion of job {name}: {reply}")
        if reply and job is not None:
            self.judge.note(who.name, f"delete job {name}")
            self.schedules[job.id].removed(self.clock.now())
            del self.jobs[name]
            self.audited(options.get("audit"))


def _choices(given: ExecutionRow) -> list[str]:
    if given.overlap_key is None:
        return []
    if given.overlap_slots == 1:
        return [given.overlap_key]
    return [f"{given.overlap_key}#{slot}" for slot in range(given.overlap_slots)]
