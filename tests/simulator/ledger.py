"""The ledger: the checker's own books, kept from what the store was asked and what it answered.

It sees every call at the instant it takes effect, whoever made it and whether or not the caller ever hears. So it
knows what the store must contain, without looking into it, and notices a wrong answer at once: a write accepted
from somebody who lost the lease, a key held twice, a tick written by two schedulers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainspring.model.execution import ExecutionRow, State
from mainspring.model.store.messages import (
    Added,
    Audit,
    CancelRequest,
    Change,
    ClaimRequest,
    Exchanged,
    HeartbeatReply,
    HeartbeatRequest,
    ProgressReport,
)
from mainspring.model.time.instants import seconds_to_micros
from tests.simulator.books import Books
from tests.simulator.judge import short
from tests.simulator.process import Process
from tests.simulator.rows import COUNTED, Row, wrong_move
from tests.simulator.settings import SETTINGS


class Ledger(Books):
    """One method for each primitive that writes, and for the reads whose answer decides what is taken from whom."""

    def observe(self, who: Process, name: str, args: tuple[Any, ...], options: dict[str, Any], reply: Any) -> None:
        watch = getattr(self, f"_on_{name}", None)
        if watch is not None:
            watch(who, reply, *args, **options)

    # --- settle and claim ---------------------------------------------------------------------------------
    def _on_exchange(
        self, who: Process, reply: Exchanged, changes: Sequence[Change], claim: ClaimRequest | None
    ) -> None:
        for change, applied in zip(changes, reply.applied, strict=True):
            self._settle(who, change, applied)
        if claim is not None:
            self._claim(who, claim, reply)

    def _settle(self, who: Process, change: Change, applied: bool) -> None:
        row, now = self.rows.get(change.id), self.clock.now()
        where = f"{short(change.id)}#{change.token} {change.expect} -> {change.to}"
        fits = row is not None and row.fits(change, now)
        self.judge.note(who.name, f"settle {where}{'' if applied else ' refused'} {change.reason or ''}")
        if applied and not fits:
            held = "nothing" if row is None else f"{row.state}#{row.token} of {short(row.owner)}, lease {row.lease}"
            self.judge.fail("who lost the lease changes nothing", f"{where} was accepted over {held} at {now}")
        if fits and not applied:
            self.judge.fail("who holds the lease is heard", f"{where} was refused")
        if not applied or row is None or self.judge.violation is not None:
            self.judge.count("fenced writes", int(change.expect is State.RUNNING and not change.rescue))
            return
        self._check_ending(who, row, change)
        self._apply(who, row, change)
        self.audited(change.audit)

    def _check_ending(self, who: Process, row: Row, change: Change) -> None:
        wrong = wrong_move(row, change)
        self.judge.check(wrong is None, "legal history", f"{short(row.id)}: {wrong}")
        if change.to.final:
            marked = change.todo == row.given.rules.follow_up
            self.judge.check(marked, "follow-ups are marked", f"{short(row.id)} ended with todo={change.todo}")
        if change.expect is State.RUNNING:
            self.journal.compare(row.id, change)
        if change.rescue:
            self._check_rescue(who, row)
        self.check_time(who, change.at, f"{short(row.id)} ended")

    def _check_rescue(self, who: Process, row: Row) -> None:
        """Never from a worker that knew of its claim, and whose beats got through all the time since; and never by
        a janitor that has just started, since all beats may have waited for the same thing as it."""
        settled_in = self.loop.time() >= who.born + SETTINGS.heartbeat
        self.judge.check(settled_in, "janitors take their time", f"{who.name} rescued {short(row.id)} at once")
        owner = self.processes.get(row.owner or "")
        if owner is None or self.jumped_since(row.claimed_at) or (row.id, row.token) not in owner.delivered:
            return
        sound = owner.sound_since(row.claimed_at)
        self.judge.check(not sound, "no lease is taken from the living", f"{short(row.id)} of {owner.name}")

    def _apply(self, who: Process, row: Row, change: Change) -> None:
        row.settle(change, self.clock.now(), self.loop.time())
        waited = "released" if change.to is State.PENDING else "cancelled while waiting"
        unbegun = "handed_back" if change.expect is State.RUNNING else waited
        end = unbegun if change.attempt is None else change.attempt.end
        self.judge.count(f"tries {end}")
        self.judge.count("retries", int(end in COUNTED and change.to is State.PENDING))
        self.judge.count("rescues", int(change.rescue))
        self.judge.count("crash loops", int(change.reason == "crash_loop"))
        if change.to.final:
            self.let_go(row)
            row.settled_by = who.name
            row.deleted = not change.keep and not change.todo

    def _claim(self, who: Process, claim: ClaimRequest, reply: Exchanged) -> None:
        before = self._claimable(claim)
        held = {blocked.execution.id for blocked in reply.blocked if self._held(blocked.execution.id)}
        for row in reply.claimed:
            self._claim_row(who, claim, row)
            self._stopped(row, row.job_id in reply.stopped)
        for blocked in reply.blocked:
            self._blocked(who, blocked.execution, blocked.execution.id in held)
        taken = {row.id for row in reply.claimed} | {blocked.execution.id for blocked in reply.blocked}
        left = [row for row in before if row.id not in taken]
        limit = 1 if claim.alone else claim.limit
        self.judge.check(len(taken) <= limit, "claims are bounded", f"{len(taken)} of {limit}")
        self.judge.check(len(taken) == limit or not left, "ready work is found", f"{len(left)} rows were left")
        lowest = min((self.rows[id].given.priority for id in taken), default=0)
        highest = max((row.given.priority for row in left), default=lowest)
        self.judge.check(not taken or highest <= lowest, "priorities first", f"{lowest} before {highest}")

    def _claimable(self, claim: ClaimRequest) -> list[Row]:
        now = self.clock.now()
        return [
            row
            for row in self.live()
            if row.state is State.PENDING
            and row.due <= now
            and row.alone == claim.alone
            and row.given.handler in claim.handlers
            and (claim.queues is None or row.given.queue in claim.queues)
        ]

    def _claim_row(self, who: Process, claim: ClaimRequest, got: ExecutionRow) -> None:
        row, now = self.rows[got.id], self.clock.now()
        where = f"{short(row.id)}#{got.token}"
        self.judge.note(who.name, f"claim {where} {got.job}{' alone' if got.alone else ''}")
        ripe = row.due <= self.clock.latest()
        allowed = row.state is State.PENDING and ripe and got.handler in claim.handlers
        self.judge.check(allowed, "only ready work is claimed", f"{where} was {row.state}, due {row.due}, now {now}")
        self.judge.check(row.alone == claim.alone, "the sick run alone", f"{where} claimed in company")
        self.let_go(row)
        row.claim(claim, now + seconds_to_micros(claim.lease), self.loop.time())
        self.hold(row)
        if row.asked:
            self.journal.doomed.add((row.id, row.token))
        same = (got.token, got.owner, got.lease) == (row.token, row.owner, row.lease)
        self.judge.check(same, "a claim is fenced in store time", f"{where}: {got.token}, {got.lease} for {row.lease}")
        same = (got.unique_key, got.overlap_key) == (row.unique, row.overlap)
        self.judge.check(same, "keys switch at pick-up", f"{where}: {got.unique_key}, {got.overlap_key}")

    def _stopped(self, got: ExecutionRow, told: bool) -> None:
        """The claimer hears that the job is cancelled, and then the handler must not start."""
        row, job = self.rows[got.id], self.jobs.get(got.job)
        row.stopped = job is not None and job.id == got.job_id and job.cancelled is not None
        self.judge.check(
            told == row.stopped, "claimers hear of cancelled jobs", f"{short(row.id)} of {got.job}: {told}"
        )
        if row.stopped:
            self.judge.count("claims of cancelled jobs")
            self.journal.doomed.add((row.id, row.token))

    def _held(self, id: str) -> bool:
        """Whether another holds a key that this row needs to run."""
        row = self.rows[id]
        holders = {self.unique.get(row.running_unique), self.overlap.get(row.running_overlap)}
        return row.staged and bool(holders - {None, id})

    def _blocked(self, who: Process, got: ExecutionRow, held_before: bool) -> None:
        """Its key was held before this claim, or by a row that was claimed with it."""
        row = self.rows[got.id]
        self.judge.note(who.name, f"blocked {short(row.id)} {got.job}")
        self.judge.count("blocked claims")
        held = held_before or self._held(row.id)
        self.judge.check(held, "only a held key defers", f"{short(row.id)} was deferred, its key is free")
        row.due, row.deferred = self.clock.now() + seconds_to_micros(5.0), True

    # --- leases -------------------------------------------------------------------------------------------
    def _on_heartbeat(self, who: Process, reply: HeartbeatReply, beat: HeartbeatRequest) -> None:
        now = self.clock.now()
        for id, token in beat.leases:
            row = self.rows.get(id)
            held = row is not None and row.held_by(beat.worker.id, token)
            if held == (id in reply.lost):
                self.judge.fail("a beat renews what is held", f"{short(id)}#{token} held: {held}, lost: {not held}")
            if row is not None and held:
                row.lease = now + seconds_to_micros(beat.lease)
        if reply.lost:
            self.judge.note(who.name, f"beat lost {' '.join(sorted(short(id) for id in reply.lost))}")

    def _on_expired(self, who: Process, reply: list[ExecutionRow], limit: int) -> None:
        now = self.clock.now()
        over = {row.id for row in self.live() if row.lease is not None and row.lease <= now}
        told = {row.id for row in reply}
        right = told == over if len(over) < limit else told <= over
        self.judge.check(right, "leases are store time", f"{len(told)} expired instead of {len(over)}")

    def _on_report(self, who: Process, reply: list[bool], reports: Sequence[ProgressReport]) -> None:
        for report, stored in zip(reports, reply, strict=True):
            row = self.rows.get(report.id)
            held = row is not None and row.held_by(report.owner, report.token)
            self.judge.count("fenced writes", int(not stored))
            self.judge.check(
                stored == held,
                "who lost the lease changes nothing",
                f"report on {short(report.id)}: {stored}, held: {held}",
            )

    # --- cancelling and follow-ups ------------------------------------------------------------------------
    def _on_request_cancel(self, who: Process, reply: list[bool], requests: Sequence[CancelRequest]) -> None:
        for request, asked in zip(requests, reply, strict=True):
            row = self.rows.get(request.id)
            fits = row is not None and row.state is State.RUNNING and row.token == request.token
            self.judge.note(who.name, f"ask {short(request.id)}#{request.token} to stop{'' if asked else ': refused'}")
            self.judge.check(asked == fits, "cancel requests are fenced", f"{short(request.id)}: {asked}")
            if row is not None and asked:
                row.asked = True
                self.judge.count("cancel requests")
                self.audited(request.audit)

    def _on_todo_done(self, who: Process, reply: None, ids: Sequence[str]) -> None:
        for id in ids:
            row = self.rows[id]
            if row.todo:
                self.judge.count("follow-ups")
                self.judge.count("follow-ups swept", int(row.settled_by != who.name))
                self.judge.note(who.name, f"followed up {short(id)}")
            row.todo = False
            row.deleted = row.deleted or not row.keep

    # --- adding -------------------------------------------------------------------------------------------
    def _on_add(
        self, who: Process, reply: list[Added], executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()
    ) -> None:
        recorded = [self.add(who, each, added) for each, added in zip(executions, reply, strict=True)]
        if any(recorded):
            self.audited(*audit)
        for each in executions:
            self.check_time(who, each.created, f"{short(each.id)} was made")
