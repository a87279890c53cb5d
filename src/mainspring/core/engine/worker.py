"""The worker: claim what is ready, run it, settle what ended. One state machine for each execution:

    claimed ---free slot---> running ---handler returns---> ended ---exchange---> settled
       |                      ^   |                           ^
       |--no slot--> prefetched   `--lease lost--> lost ------|   a lost handler keeps its slot until it returns
       |                |                                     |
       |--cancelled, draining, stale, unreadable or its lease over: handed back without a start
       `--paused, or its queue has another ceiling by now: put back in its place, which is no ending at all

One exchange with the store settles what ended and claims what is ready. Under load exchanges overlap: while one is on
its way, handlers go on, and as soon as a batch of them has ended the next exchange starts.

Every write about an execution carries the token and the owner of its claim. What the store refuses belongs to another
worker by now, and is dropped.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import msgspec

from ...model.errors import StoreError
from ...model.events import AttemptEnded, Fenced, Started
from ...model.execution import ExecutionRow, Outcome, State, claim_stamp
from ...model.store.messages import Blocked, Change, ClaimRequest, Exchanged, HeartbeatReply, WorkerInfo
from ...model.time.instants import SECOND, Micros
from ...model.values.ids import Chance
from ..cancelling import cancel_all, is_superseded, of_stopped_jobs
from ..declaring.registry import Handler
from ..emitting import emit_many_of
from ..loops import FIRST_PAUSE, Emit, Loop, NothingAsked, Outage, trouble
from ..ports import Clock, Store, Topic
from ..rules import transitions
from ..rules.controls import ControlsInForce
from .ended_counts import EndedCounts
from .heartbeat import Leases
from .janitor import Janitor
from .log_capture import start_capture, stop_capture
from .prefetch import STALE, DurationEstimate, ExclusiveTurns, Prefetched
from .put_backs import PutBack, PutBacks
from .runner import Run, Runner

EXCHANGES = 3
"""How many may be on their way at once."""
BATCH = 100
"""Endings that are worth an exchange of their own while another one is on its way."""
MOST_AT_ONCE = 500
LARGE = 32 * 1024
"""Characters of parameters that may take milliseconds to decode."""
UNTIL_WOKEN = 3600.0
REPORT_INTERVAL = 0.5
CANCEL_CHECK_INTERVAL = 0.2
UNREADABLE_PAUSE = 60.0
INTERPRETER_DEFAULTS = (700, 2_000)  # of several Python versions
YOUNGEST = 10_000
"""Objects that may be created, and not be freed again, before the garbage collector looks at the youngest."""


@cache
def _prepare_collector() -> None:
    """Imports and start-up bring the interpreter close to its next full collection, which stops everything for 15 ms or
    more, and would come in the middle of the first work. A collection now delays nobody.

    Hundreds of executions are under way at once and gone a moment later. Collecting the youngest objects every 700
    allocations finds nothing, and took a tenth of the worker's time. A threshold that the application set is kept.
    """
    gc.collect()
    youngest, *others = gc.get_threshold()
    if youngest in INTERPRETER_DEFAULTS:
        gc.set_threshold(YOUNGEST, *others)


class Handlers(Protocol):
    """The handlers that a worker runs."""

    @property
    def names(self) -> frozenset[str]: ...

    def get(self, name: str) -> Handler: ...


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`steady` polls at its interval, whatever is due when: for work that may come a second late. Two workers of one
    node have the same owner, and each has a name and begins at a stamp of its own."""

    name: str = "worker"
    concurrency: int
    queues: frozenset[str] | None
    exclude: frozenset[str]
    lease: float
    poll_interval: float
    steady: bool = False
    first_stamp: int = 0


class _Ending(NamedTuple):
    """An attempt that has ended, and the change that its outcome asks for."""

    run: Run
    outcome: Outcome
    change: Change


class Worker:
    """Made inside a running event loop."""

    def __init__(
        self,
        store: Store,
        handlers: Handlers,
        runner: Runner,
        leases: Leases,
        settings: WorkerSettings,
        clock: Clock,
        chance: Chance,
        emit: Emit,
        janitor: Janitor,
    ) -> None:
        self._store, self._handlers, self._runner, self._leases = store, handlers, runner, leases
        self._settings, self._clock, self._chance, self._emit = settings, clock, chance, emit
        self._emit_many, self._janitor = emit_many_of(emit), janitor
        self._event_loop = asyncio.get_running_loop()
        self._concurrency = settings.concurrency
        self._runs: dict[str, Run] = {}
        self._lost: set[Run] = set()
        self._prefetched = Prefetched()
        self._resting = False
        leases.slotless.append((lambda: self._held) if settings.steady else self._prefetched.__len__)
        self._endings: list[_Ending] = []
        self.put_backs = PutBacks(clock)
        self._suspended = False
        self.ended = EndedCounts(clock)
        self._mismatches: set[asyncio.Task[None]] = set()
        self._started: list[Run] = []  # in this turn of the event loop, and not emitted yet
        self._estimate = DurationEstimate()
        self._exclusive = ExclusiveTurns()
        self._turn = 0
        self._under_way = 0  # exchanges
        self._asked = 0  # executions that the exchanges under way may bring
        self._asked_exclusive = False
        self._draining = False
        self._cut_off = False
        self._last_cancel_check = float("-inf")
        self._idle = asyncio.Event()
        self._idle.set()
        outage = Outage(settings.name, emit)
        self._main_loop = Loop(settings.name, self._exchange, emit, outage)
        self._more_loops = [Loop(settings.name, self._exchange_more, emit, outage) for _ in range(EXCHANGES - 1)]
        self._report_loop = Loop("notes", self._report, emit)

    @property
    def running(self) -> int:
        """How many handlers are at work."""
        return len(self._runs) + len(self._lost)

    @property
    def _held(self) -> int:
        return len(self._runs) + len(self._lost) + len(self._prefetched)

    @property
    def _room(self) -> int:
        """How many more executions may be claimed: for free slots, and to prefetch."""
        return self._concurrency + self._estimate.prefetch(self._concurrency) - self._held

    def start(self) -> None:
        _prepare_collector()
        start_capture(self)
        for loop in (self._main_loop, *self._more_loops, self._report_loop):
            loop.start()

    def wake(self, topic: Topic = Topic.WORK) -> None:
        if topic in (Topic.CANCEL, Topic.ANY) and self._held:
            self._report_loop.wake()
        if topic in (Topic.WORK, Topic.ANY):
            self._main_loop.wake()

    # --- claim and settle: one exchange -------------------------------------------------------------------
    async def _exchange(self) -> float:
        if self._under_way and not self._worth_another():
            return NothingAsked(self._settings.poll_interval)  # woken when the other exchange is back
        endings, self._endings = self._endings, []
        put_back = self.put_backs.take()
        claim = self._claim_request()
        if not endings and not put_back and claim is None:
            return NothingAsked(self._settings.poll_interval)
        sent = self._clock.monotonic()
        reply = await self._send(endings, put_back, claim)
        self._settle(endings, reply.applied[: len(endings)])
        for each in put_back:
            self._leases.give_up(each.execution)
        if claim is not None:
            took_one = claim.alone and bool(reply.claimed)
            self._exclusive.learn(reply.alone_waiting, took_one, self._clock.monotonic())
        await self._take(reply, sent)
        return self._delay(reply, claim)

    async def _exchange_more(self) -> float:
        """Beside the main loop, when so much has ended that it should not wait for the exchange under way."""
        if not (self._under_way and self._worth_another()):
            return NothingAsked(UNTIL_WOKEN)
        try:
            await self._exchange()
        finally:
            self._main_loop.wake()
        return 0.0

    def _worth_another(self) -> bool:
        return len(self._endings) >= self._under_way * BATCH

    def _claim_request(self) -> ClaimRequest | None:
        room = min(self._room - self._asked, MOST_AT_ONCE)
        handlers = self._handlers.names - self._settings.exclude - self.put_backs.controls.paused_handlers
        if self._draining or self._cut_off or self._suspended or self.put_backs.all_paused(self._settings.queues):
            return None
        if room <= 0 or not handlers or self._runs_exclusive():
            return None
        busy = self._held + self._asked
        if self._exclusive.holds_back(busy, self._clock.monotonic()):
            return None
        exclusive = self._exclusive.wants(busy)
        self._turn += 1
        return ClaimRequest(
            owner=self._leases.info.id,
            handlers=handlers,
            queues=self._settings.queues,
            without_queues=self.put_backs.controls.paused_queues,
            limit=1 if exclusive else room,
            lease=self._settings.lease,
            turn=self._turn,
            alone=exclusive,
            stamp=claim_stamp(self._leases.info.id, self._settings.first_stamp + self._turn),
        )

    def _runs_exclusive(self) -> bool:
        """Whether an exclusive execution runs here, or may come with an exchange under way."""
        return self._asked_exclusive or (len(self._runs) == 1 and next(iter(self._runs.values())).execution.alone)

    async def _send(self, endings: list[_Ending], put_back: list[PutBack], claim: ClaimRequest | None) -> Exchanged:
        asked = claim.limit if claim is not None else 0
        self._under_way += 1
        self._asked += asked
        self._asked_exclusive = claim is not None and claim.alone
        try:
            if endings:
                await self._write_reports([ending.run for ending in endings])
            changes = [ending.change for ending in endings] + [each.change for each in put_back]
            return await self._store.exchange(changes, claim)
        except BaseException:
            self._endings = endings + self._endings
            self.put_backs.restore(put_back)
            raise
        finally:
            self._under_way -= 1
            self._asked -= asked
            self._asked_exclusive = False

    def _delay(self, reply: Exchanged, claim: ClaimRequest | None) -> float:
        if self._endings or self.put_backs:
            return 0.0
        if claim is not None and (reply.more or len(reply.claimed) >= claim.limit):
            return 0.0 if self._room > 0 else self._settings.poll_interval
        if self._exclusive.waiting and not self._held:
            return 0.0
        if reply.next_due is None or self._settings.steady:
            return self._settings.poll_interval
        return min(max((reply.next_due - reply.now) / SECOND, 0.001), self._settings.poll_interval)

    # --- claimed: run, prefetch or return -----------------------------------------------------------------
    async def _take(self, reply: Exchanged, sent: float) -> None:
        """The leases of what was claimed run from `sent` at the earliest."""
        was_idle = not self._held
        self._estimate.claimed(len(each.params) for each in reply.claimed)
        await self.put_backs.look_again(reply.claimed)
        for execution in of_stopped_jobs(reply) if reply.stopped else reply.claimed:
            self._accept(execution, sent)
        if reply.claimed and was_idle:
            self._report_loop.wake()  # it looks rarely while nothing runs
        for blocked in reply.blocked:
            await self._supersede(blocked)

    def _accept(self, execution: ExecutionRow, leased: float) -> None:
        id = execution.id
        if id in self._leases.held:
            self._forget(id)
        self._leases.held[id] = execution.token
        self._idle.clear()
        if execution.cancel_requested is not None or self._draining or not execution.readable or self._suspended:
            self._return(execution)
        elif self.put_backs.keep(execution):
            self._fill_slots()
        elif len(self._runs) + len(self._lost) < self._concurrency and not _is_large(execution):
            self._run(execution, leased)
        else:
            self._prefetched.add(execution, self._clock.monotonic(), leased)
            self._fill_slots()

    def obey(self, controls: ControlsInForce, *, suspended: bool) -> None:
        """From now on; a suspended worker claims nothing. What was prefetched and must not begin goes back; what runs
        is not stopped."""
        self.put_backs.controls, self._suspended = controls, suspended
        if suspended:
            self._return_prefetched()
        for execution in self._prefetched.rows():
            if self.put_backs.keep(execution):
                self._prefetched.pop(execution.id)
        self._main_loop.wake()

    def _forget(self, id: str) -> None:
        """A claim brought an execution that is still held here: its earlier lease was lost unnoticed."""
        if id in self._runs:
            self._lose(self._runs[id])
        self._prefetched.pop(id)

    async def _supersede(self, blocked: Blocked) -> None:
        """A job that cancels its running execution: a safety net under the scheduler's own request."""
        if blocked.execution.rules.overlap != "cancel_running" or blocked.holder is None:
            return
        holder = await self._store.execution(blocked.holder)
        if holder is not None and is_superseded(holder) and holder.job_id == blocked.execution.job_id:
            await cancel_all(self._store, [holder], f"superseded by {blocked.execution.id}", self._emit)

    # --- running ------------------------------------------------------------------------------------------
    def _run(self, execution: ExecutionRow, leased: float) -> None:
        """The handler does not begin if this process was stopped for a whole lease since it sent the claim: by now the
        execution may run elsewhere. The runner checks that at the handler's first step."""
        run = self._prepare(execution)
        run.leased_until = leased + self._settings.lease
        self._runs[execution.id] = run
        self._started.append(run)
        if len(self._started) == 1:
            self._event_loop.call_soon(self._emit_started)
        if not run.handler.is_async or self._event_loop.get_task_factory() is not None:
            self._emit_started()
        self._runner.begin(run, self._returned)

    def _prepare(self, execution: ExecutionRow) -> Run:
        return self._runner.prepare(execution, self._handlers.get(execution.handler))

    def _emit_started(self) -> None:
        """Emit all starts of this turn of the event loop at once, before the first of their tasks takes a step: tasks
        have their turn later. Threads do not wait for that, and neither do tasks of a foreign task factory."""
        started, self._started = self._started, []
        if started:
            executions = [run.execution for run in started]
            self._emit_many(Started, executions, partial(list, map(_start_event, started)))

    def _returned(self, run: Run, outcome: Outcome | None) -> None:
        """The handler returned; without an outcome, it was stopped before its first step."""
        if run.abandoned:
            return
        if outcome is None:
            outcome = self._not_begun(run)
        elif outcome.reason == transitions.MISMATCH:
            task = self._event_loop.create_task(self._mismatched(run, outcome))
            self._mismatches.add(task)
            task.add_done_callback(self._mismatches.discard)
            return
        else:
            self._estimate.add((outcome.ended - outcome.started) / SECOND)
        self._end(run, outcome)

    async def _mismatched(self, run: Run, outcome: Outcome) -> None:
        """This release cannot read the payload. Whether another one may is asked of the list of workers."""
        try:
            others = any(self._could_take(run.execution, worker) for worker in await self._store.workers())
        except Exception:
            others = True
        if not run.abandoned:
            self._end(run, transitions.after_mismatch(run.execution, outcome, others))

    def _could_take(self, execution: ExecutionRow, worker: WorkerInfo) -> bool:
        serves = worker.queues is None or execution.queue in worker.queues
        return worker.id != self._leases.info.id and serves and execution.handler in worker.handlers

    def _fill_slots(self) -> None:
        """One execution with large parameters begins in a turn of the event loop."""
        while not self._resting and self._prefetched and len(self._runs) + len(self._lost) < self._concurrency:
            execution, leased = self._prefetched.next()
            self._run(execution, leased)
            if _is_large(execution):
                self._resting = True
                self._event_loop.call_soon(self._go_on)
        if not self._held:
            self._idle.set()

    def _go_on(self) -> None:
        self._resting = False
        self._fill_slots()

    # --- ended --------------------------------------------------------------------------------------------
    def _end(self, run: Run, outcome: Outcome) -> None:
        """The attempt is over. Its lease is kept until the store has accepted or refused the ending."""
        if self._lost and run in self._lost:
            self._lost.remove(run)  # its ending is sent all the same: if nobody has taken it over, it counts
        else:
            self._runs.pop(run.execution.id, None)
        try:
            if outcome.end == "completed":
                roll = 0.0
            else:
                roll, release = self._chance.random(), self._leases.info.release
                outcome = msgspec.structs.replace(outcome, release=release) if release else outcome
            change = transitions.after_attempt(run.execution, outcome, roll)
            if change.to is State.PENDING:
                change = self.put_backs.controls.adjusted(change)
        except Exception as error:  # unreadable rules: the lease runs out, and another node decides
            self._leases.give_up(run.execution)
            self._emit(trouble(f"ending of {run.execution.id}", error))
        else:
            self._endings.append(_Ending(run, outcome, change))
        self._main_loop.wake()
        if 0 < self._under_way < EXCHANGES and self._worth_another():
            self._more_loops[self._under_way - 1].wake()
        self._fill_slots()

    def _settle(self, endings: list[_Ending], applied: Sequence[bool]) -> None:
        """The store has accepted or refused these endings. Completed attempts are emitted together."""
        completed: list[_Ending] = []
        ended: list[ExecutionRow] = []
        for ending, accepted in zip(endings, applied, strict=True):
            run, outcome, change = ending
            self._leases.give_up(run.execution)
            if not accepted:
                self._emit(Fenced(run.execution, "ending"))
                continue
            if change.todo:
                self._janitor.wake_follow_ups()
            if change.to.final:
                ended.append(run.execution)
            if outcome.end == "completed" and outcome.overran is None:
                completed.append(ending)
                continue
            if change.to is State.WAITING:
                self._janitor.wake_fan_outs()  # its tenants may have ended before it began to wait for them
            self._emit(attempt_ended(run.execution, outcome, change))
        if ended:
            self.ended.add(ended)
        if completed:
            executions = [ending.run.execution for ending in completed]
            self._emit_many(AttemptEnded, executions, partial(list, map(_completed_event, completed)))

    # --- never begun --------------------------------------------------------------------------------------
    def _return(self, execution: ExecutionRow) -> None:
        run = self._prepare(execution)
        self._end(run, self._not_begun(run))

    def _not_begun(self, run: Run) -> Outcome:
        """The outcome of a claim whose handler never starts: the execution was cancelled before, this worker is leaving
        or too slow, or a newer release wrote rules that only its own nodes can read."""
        ending: dict[str, Any] = {"end": "handed_back"}
        if not run.execution.readable:
            error = f"this release cannot read its rules: {run.execution.policy}"
            ending = {"end": "snoozed", "delay": UNREADABLE_PAUSE, "error": error}
        elif run.execution.cancel_requested is not None:
            ending = {"end": "cancelled", "reason": run.execution.cancel_reason}
        return Outcome(started=run.started, ended=run.started, worker=self._leases.info.id, begun=False, **ending)

    def _return_prefetched(self) -> None:
        for execution in self._prefetched.pop_all():
            self._return(execution)

    # --- cancelled or lost --------------------------------------------------------------------------------
    def _cancel(self, id: str, reason: str) -> None:
        run = self._runs.get(id)
        if run is not None and run.stopped is None:
            self._runner.cancel(run, reason, self._clock.now())
        elif (waiting := self._prefetched.pop(id)) is not None:
            self._return(msgspec.structs.replace(waiting, cancel_requested=self._clock.now(), cancel_reason=reason))

    def _lose(self, run: Run) -> None:
        """Stop it, and let go of its id: the same execution may be claimed again here before its handler returns."""
        if self._runs.get(run.execution.id) is run:
            del self._runs[run.execution.id]
            self._lost.add(run)
            self._leases.give_up(run.execution)
            run.stop("lost", "the lease was lost")

    def on_beat(self, reply: HeartbeatReply) -> None:
        """A heartbeat came back: stop what is lost and what is cancelled."""
        if self._cut_off:
            self._cut_off = False
            self._main_loop.wake()
        for id in sorted(reply.lost):
            if id in self._runs:
                self._lose(self._runs[id])
            elif (waiting := self._prefetched.pop(id)) is not None:
                self._leases.give_up(waiting)
                self._fill_slots()
        for id, reason in reply.cancels.items():
            self._cancel(id, reason)

    def on_cut_off(self) -> None:
        """No heartbeat got through for a whole lease: what runs here may run elsewhere by now. Nothing is claimed until
        one does."""
        self._cut_off = True
        for execution in self._prefetched.pop_all():
            self._leases.give_up(execution)
        for run in list(self._runs.values()):
            self._lose(run)
        self._fill_slots()

    # --- reports of running handlers ----------------------------------------------------------------------
    async def _report(self) -> float:
        if not self._held:
            return NothingAsked(self._settings.poll_interval if self._draining else REPORT_INTERVAL * 4)
        self._notice_vanished()
        self._return_stale()
        asked = await self._check_cancels()
        await self._write_reports(list(self._runs.values()))
        return REPORT_INTERVAL if asked else NothingAsked(REPORT_INTERVAL)

    def _notice_vanished(self) -> None:
        """A task that other code cancelled before its first step never returns."""
        tasks = [(run, run.task) for run in (*self._runs.values(), *self._lost) if not run.entered]
        for run, task in tasks:
            if task is not None and task.done():
                self._returned(run, None)

    def _return_stale(self) -> None:
        """Prefetched executions that have waited too long go back: another worker may be free."""
        waited = self._clock.monotonic() - self._prefetched.since if self._prefetched else 0.0
        if waited >= STALE:
            self._estimate.add(waited)
            self._return_prefetched()

    async def _check_cancels(self) -> bool:
        """Returns whether the store was asked."""
        now = self._clock.monotonic()
        if now - self._last_cancel_check < CANCEL_CHECK_INTERVAL:
            return False
        self._last_cancel_check = now
        for id, reason in (await self._store.cancels(self._leases.info.id)).items():
            self._cancel(id, reason)
        return True

    async def _write_reports(self, runs: Sequence[Run]) -> None:
        """Progress, counters and log lines, fenced like an ending: a refused report means that the lease is lost."""
        reported = [(run, report) for run in runs if (report := run.drain_report()) is not None]
        if not reported:
            return
        try:
            stored = await self._store.report([report for _, report in reported])
        except BaseException:
            for run, report in reported:
                run.context.undrain(report.progress_json, report.counters_json, report.logs)
                run.context.undrain_tags()
            raise
        for (run, _), accepted in zip(reported, stored, strict=True):
            if not accepted:
                self._lose(run)

    # --- stop ---------------------------------------------------------------------------------------------
    def drain(self) -> None:
        """Claim nothing from now on, and hand back what was prefetched."""
        self._draining = True
        self._return_prefetched()

    async def stop(self, patience: float, reserve: float) -> tuple[int, int]:
        """Drain: running handlers get `patience` seconds, then are stopped and handed back uncounted.

        This returns within `patience + reserve`: how many were handed back, and how many endings the store has not
        accepted, because it cannot be reached. Their executions are taken over when their lease ends.
        """
        deadline = self._clock.monotonic() + patience + reserve
        self.drain()
        await self._until_idle(patience)
        unfinished = list(self._runs.values())
        for run in unfinished:
            run.stop("handed_back", "the worker is shutting down", within=reserve * 0.2)
        if unfinished:
            await self._until_idle(reserve * 0.3)
        self._abandon_all()
        stop_capture(self)
        await self._settle_rest(deadline - self._clock.monotonic() - reserve * 0.1)
        unsettled = {ending.run.execution.id for ending in self._endings}
        return sum(run.execution.id not in unsettled for run in unfinished), len(unsettled)

    async def _until_idle(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(max(timeout, 0)):
                await self._idle.wait()
        except TimeoutError:
            pass

    def _abandon_all(self) -> None:
        """Hand executions back whose handlers do not return. Their tokens keep those handlers from writing."""
        for run in self._lost:
            run.abandon()
        for run in list(self._runs.values()):
            run.abandon()
            ended = max(self._clock.now(), run.started)
            outcome = Outcome(end="handed_back", started=run.started, ended=ended, worker=self._leases.info.id)
            run.end_trace(outcome, None)
            self._end(run, outcome)

    async def _settle_rest(self, timeout: float) -> None:
        """Loops end after their step; endings that are left are sent until time is up."""
        loops = [self._report_loop, *self._more_loops, self._main_loop]
        try:
            async with asyncio.timeout(max(timeout, 0.1)):
                for loop in loops:
                    await loop.stop()
                while self._endings or self.put_backs:
                    await self._settle_again()
        except TimeoutError:
            for loop in loops:
                await loop.abort()

    async def _settle_again(self) -> None:
        try:
            await self._exchange()
        except StoreError:
            await asyncio.sleep(FIRST_PAUSE)


def _is_large(execution: ExecutionRow) -> bool:
    return len(execution.params) > LARGE


def attempt_ended(execution: ExecutionRow, outcome: Outcome, change: Change) -> AttemptEnded[ExecutionRow]:
    return AttemptEnded(
        execution=execution,
        state=change.to,
        attempt=execution.attempt,
        duration_ms=(outcome.ended - outcome.started) / 1000,
        error=outcome.error,
        traceback=outcome.traceback,
        retry_in=change.delay if change.to is State.PENDING else None,
        reason=change.reason or _why(outcome),
        error_group=None if change.attempt is None else change.attempt.error_group,
    )


def _why(outcome: Outcome) -> str:
    """What ended an attempt after which the execution is tried again: `signal`, `out_of_memory` and their kind, as its
    record says, or else how it ended."""
    named = outcome.end == "failed" and outcome.reason not in (None, "error")
    return (named and outcome.reason) or outcome.end


def _completed_event(ending: _Ending) -> AttemptEnded[ExecutionRow]:
    execution, outcome = ending.run.execution, ending.outcome
    took = (outcome.ended - outcome.started) / 1000
    return AttemptEnded(execution, ending.change.to, execution.failures + 1, took, reason="completed")


def _start_event(run: Run) -> Started[ExecutionRow, Micros]:
    return Started(run.execution, run.started)
