"""The janitor: take work back from dead workers, finish what a crash left undone, delete old history.

Every node runs one. Every step is idempotent, so janitors need not know of each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ...model import defaults
from ...model.events import Rescued
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.store.messages import Change, ExecutionQuery, PruneRule
from ...model.time.instants import SECOND, Micros, seconds_to_micros
from ...model.values.ids import Chance, first_id
from ..cancelling import cancel_all, ended_while_waiting, sweep_job
from ..dependencies.joins import prune_joins
from ..dependencies.links import LinkUpkeep
from ..deploys.processes import ConflictWatch
from ..errors.folding import Folding
from ..loops import Emit, Loop, NothingAsked, one_by_one, stop_all
from ..ports import Clock, Store
from ..rules import job_commands, transitions
from ..rules.controls import NOTHING_SET, ControlsInForce
from ..rules.problems import FORGOTTEN_AFTER
from ..rules.retention import prune_rules, sparing_tenants
from ..tenants import rosters
from ..tenants.endings import check_open_parents
from ..webhooks.node_part import NodeWebhooks
from .follow_ups import FollowUps
from .walk_place import WalkPlace

BATCH = 100
FOLD_BATCH = 10_000
PRUNE_BATCH = 500
AUDIT_BATCHES = 20
JOBS_AT_ONCE = 200
CLOCK_TOLERANCE = 2.0
WORKER_SILENCE = FORGOTTEN_AFTER / SECOND
FAN_OUT_POLL = 10.0
PRUNE_LISTS_EVERY = 60
HEAD_START = 2.0
"""Seconds that the process which cancelled a job has for sweeping it: only that process knows the reason."""


class Janitor:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        emit: Emit,
        *,
        heartbeat: float = defaults.HEARTBEAT,
        rescue_interval: float = defaults.RESCUE_INTERVAL,
        sweep_interval: float = defaults.FOLD_INTERVAL,
        retention_interval: float = defaults.RETENTION_INTERVAL,
        audit_retention: float | None = None,
        webhooks: NodeWebhooks | None = None,
        conflicts: ConflictWatch | None = None,
    ) -> None:
        self._store, self._clock, self._chance, self._emit = store, clock, chance, emit
        self._rescue_interval, self._sweep_interval = rescue_interval, sweep_interval
        self._retention_interval, self._audit_retention = retention_interval, audit_retention
        self._trust = ClockTrust(clock, heartbeat, rescue_interval)
        self.controls: ControlsInForce = NOTHING_SET
        self._place = WalkPlace(store, "retention")
        self._joins_up_to: dict[str, str] = {}
        self._links = LinkUpkeep(store, emit)
        self._errors = Folding(store, clock, None if webhooks is None else webhooks.hand_over)
        self._webhooks, self._conflicts = webhooks, conflicts
        self._endings = FollowUps(store, emit, None if webhooks is None else webhooks.hand_over)
        self._follow_ups = Loop("follow-ups", self._do_follow_ups, emit)
        self._fan_outs = Loop("fan-outs", self._advance_fan_outs, emit)
        self._fan_out_checks = 0
        self.loops = [
            self._follow_ups,
            self._fan_outs,
            Loop("rescue", self._rescue, emit),
            Loop("sweep", self._sweep, emit),
            Loop("retention", self._retain, emit),
        ]

    def start(self) -> None:
        for loop in self.loops:
            loop.start()

    def wake_follow_ups(self) -> None:
        self._follow_ups.wake()

    def wake_fan_outs(self) -> None:
        self._fan_outs.wake()

    async def stop(self, timeout: float) -> None:
        await stop_all(self.loops, timeout)

    # --- rescue -------------------------------------------------------------------------------------------
    async def _rescue(self) -> float:
        taken = BATCH
        while taken == BATCH:
            if (wait := self._trust.wait(await self._store.now())) > 0:
                return NothingAsked(wait)
            expired = await self._store.expired(BATCH)
            if expired and (wait := self._trust.wait(await self._store.now())) > 0:
                return NothingAsked(wait)  # this process was paused: its own heartbeat may not have been sent yet
            taken = await self._take_back(expired)
        return self._rescue_interval

    async def rescue_once(self) -> int:
        """Take back one batch of executions whose lease has run out by the store's clock."""
        return await self._take_back(await self._store.expired(BATCH))

    async def _take_back(self, expired: Sequence[ExecutionRow]) -> int:
        if not expired:
            return 0
        now = await self._store.now()
        lost = one_by_one("rescue", expired, lambda each: self._after_loss(each, now), self._emit)
        reply = await self._store.exchange([change for _, change in lost], None)
        for (execution, change), applied in zip(lost, reply.applied, strict=True):
            if applied:
                self._rescued(execution, change, now)
        return len(lost)

    def _after_loss(self, execution: ExecutionRow, now: Micros) -> Change:
        change = transitions.after_attempt(execution, transitions.lost(execution, now), self._chance.random())
        return self.controls.adjusted(change)

    def _rescued(self, execution: ExecutionRow, change: Change, now: Micros) -> None:
        silent_ms = (now - (execution.lease or now)) / 1000
        retry_in = change.delay if change.to is State.PENDING else None
        self._emit(Rescued(execution, silent_ms, change.to, change.reason, retry_in))
        if change.todo:
            self.wake_follow_ups()

    # --- sweep --------------------------------------------------------------------------------------------
    async def _do_follow_ups(self) -> float:
        await self._endings.do(await self._store.now())
        return 0.0 if self._endings.more else self._sweep_interval

    async def _advance_fan_outs(self) -> float:
        """A parent is mostly ended by the follow-up of its last tenant. This is the safety net: one read where no
        parent is open."""
        now = await self._store.now()
        checked = await check_open_parents(self._store, now, self._emit)
        if checked.ended:
            self.wake_follow_ups()
        if self._fan_out_checks % PRUNE_LISTS_EVERY == 0:
            await rosters.prune_closed(self._store, now)
        self._fan_out_checks += 1
        if checked.next_deadline is None:
            return FAN_OUT_POLL
        return min(FAN_OUT_POLL, max(0.05, (checked.next_deadline - now) / SECOND))

    async def _sweep(self) -> float:
        if self._webhooks is not None:
            await self._webhooks.subscriptions.read_now()
        await self._store.fold(FOLD_BATCH)
        await self._errors.sweep()
        await cancel_all(self._store, await self._store.unserved_cancels(BATCH), "cancelled", self._emit)
        patient = await self._store.now() - seconds_to_micros(HEAD_START)
        for job in await self._store.swept(BATCH):
            if job.cancelled is None:
                await self._hand_over_pause(job)
            elif job.cancelled <= patient:
                await sweep_job(self._store, job, self._emit)
        if self._conflicts is not None:
            await self._conflicts.check()
        return self._sweep_interval

    async def _hand_over_pause(self, job: Job) -> None:
        """The job was paused or resumed, and an endpoint of webhooks wanted to hear of it."""
        if self._webhooks is not None:
            await self._webhooks.hand_over.steered(job)
        await self._store.write_jobs([job_commands.swept(job)])

    # --- retention ----------------------------------------------------------------------------------------
    async def _retain(self) -> float:
        await self.retain_once()
        return self._retention_interval

    async def retain_once(self) -> int:
        """Prune the history of the next jobs by their own rules: a bounded number of jobs in each pass, in turn."""
        now = await self._store.now()
        jobs = await self._place.next_jobs(JOBS_AT_ONCE)
        pruned = 0
        ended = await self._store.stats([job.id for job in jobs]) if jobs else {}
        planned = one_by_one("retention", jobs, lambda job: prune_rules(job, ended.get(job.id), now), self._emit)
        oldest = await self._oldest_parents()
        for job, rules in planned:
            if job.spec.run_timeout is not None:
                await self._end_overdue(job, now)
            for rule in rules:
                pruned += await self._prune(sparing_tenants(rule, oldest.get(job.id)))
            if len(job.spec.after) > 1:
                self._joins_up_to[job.id] = await prune_joins(
                    self._store, job, self._joins_up_to.get(job.id, ""), now, self._emit
                )
        await self._links.run(jobs, now)
        await self._store.prune_workers(WORKER_SILENCE)
        await self._prune_audits(now)
        return pruned

    async def _end_overdue(self, job: Job, now: Micros) -> None:
        """End executions whose `run_timeout` was up while they waited for their next attempt, which no worker claims.
        The oldest come first; a worker that claims one ends it too."""
        query = ExecutionQuery(job_id=job.id, states=frozenset({State.PENDING}), limit=BATCH, oldest_first=True)
        found = [(each, transitions.after_run_timeout(each, now)) for each in await self._store.find(query)]
        overdue = [(each, change) for each, change in found if change is not None]
        if not overdue:
            return
        reply = await self._store.exchange([change for _, change in overdue], None)
        for (each, change), applied in zip(overdue, reply.applied, strict=True):
            if applied:
                self._emit(ended_while_waiting(each, change))
                self.wake_follow_ups()

    async def _prune_audits(self, now: Micros) -> None:
        """Their ids are ordered by time."""
        if self._audit_retention is None:
            return
        before = first_id(now - seconds_to_micros(self._audit_retention))
        for _ in range(AUDIT_BATCHES):
            if await self._store.prune_audits(before, PRUNE_BATCH) < PRUNE_BATCH:
                return

    async def _oldest_parents(self) -> dict[str, Micros]:
        """For each job, since when it has had tenants whose parent has not ended. The job itself may have lost its
        `tenants=` since."""
        oldest: dict[str, Micros] = {}
        for _, parent in await rosters.open_parents(self._store):
            oldest[parent.job_id] = min(parent.at, oldest.get(parent.job_id, parent.at))
        return oldest

    async def _prune(self, rule: PruneRule) -> int:
        total = 0
        while (deleted := await self._store.prune(rule, PRUNE_BATCH)) > 0:
            total += deleted
            await asyncio.sleep(0)
        return total


class ClockTrust:
    """Whether the store's clock can be trusted to judge leases.

    A janitor that has just started, that was delayed (its process was paused, its event loop blocked), or that sees
    store time and monotonic time diverge (a clock was set, the machine slept), gives live workers one heartbeat to
    renew their leases before it takes anything from them.
    """

    def __init__(self, clock: Clock, heartbeat: float, interval: float) -> None:
        self._clock = clock
        self._heartbeat = heartbeat
        self._interval = self._planned = interval
        self._seen: tuple[Micros, float] | None = None
        self._trusted_from = 0.0

    def wait(self, store_now: Micros) -> float:
        """Seconds to wait before judging; 0 when the clock can be trusted."""
        monotonic = self._clock.monotonic()
        if self._seen is None or self._disturbed((store_now - self._seen[0]) / SECOND, monotonic - self._seen[1]):
            self._trusted_from = monotonic + self._heartbeat
        self._seen = (store_now, monotonic)
        wait = max(0.0, self._trusted_from - monotonic)
        self._planned = wait or self._interval
        return wait

    def _disturbed(self, by_store: float, by_monotonic: float) -> bool:
        """Whether the last check was much longer ago than planned, or the two clocks disagree on how long ago."""
        late = by_monotonic - self._planned > min(CLOCK_TOLERANCE, self._heartbeat / 2)
        return late or abs(by_store - by_monotonic) > CLOCK_TOLERANCE
