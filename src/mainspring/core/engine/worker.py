"""The worker: settle what ended and claim what is ready, in one exchange; run it; keep the leases.

Everything it writes about an execution carries the token and the owner of its claim. What the store refuses
belongs to somebody else by now, and is dropped.

Under load exchanges overlap: while one is on its way, handlers go on, and as soon as a batch of them has ended the
next exchange starts.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import msgspec

from ...model.errors import StoreError
from ...model.events import AttemptEnded, Fenced
from ...model.execution import Outcome, State
from ...model.store.messages import Blocked, Change, ClaimRequest, Exchanged, HeartbeatReply
from ...model.time.instants import SECOND
from ...model.values.ids import Chance
from ..cancelling import cancel_all, is_superseded, of_stopped_jobs
from ..declaring.registry import Registry
from ..emitting import emit_many_of
from ..loops import FIRST_PAUSE, Emit, Loop, trouble
from ..ports import Clock, Store, Topic
from ..rules import transitions
from .exclusive import Solitude
from .heartbeat import Leases
from .runner import Run, Runner
from .slots import Notes, Slots

EXCHANGES = 3
"""How many may be on their way at once."""
BATCH = 100
"""Endings that are worth an exchange of their own while another one is on its way."""
MOST_AT_ONCE = 500
UNTIL_WOKEN = 3600.0
INTERPRETERS_OWN = (700, 2_000)  # of its several versions
YOUNGEST = 10_000
"""Objects that may be made, and not be gone again, before the garbage collector looks at the youngest."""


@cache
def _prepare_collector() -> None:
    """Imports and start-up bring the interpreter close to its next full collection, which stops everything for 15 ms or
    more: it would come in the middle of the first work. Now nobody waits for it, and the next one is far away.

    Hundreds of executions are under way at once and are gone a moment later: a look at the youngest objects every 700
    finds nothing, and took a tenth of the worker's time. Whoever has set another threshold keeps it.
    """
    gc.collect()
    youngest, *others = gc.get_threshold()
    if youngest in INTERPRETERS_OWN:
        gc.set_threshold(YOUNGEST, *others)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    concurrency: int
    queues: frozenset[str] | None
    exclude: frozenset[str]
    lease: float
    poll_interval: float


class _Ending(NamedTuple):
    run: Run
    outcome: Outcome
    change: Change


def _completed(ending: _Ending) -> AttemptEnded:
    execution, outcome = ending.run.execution, ending.outcome
    took = (outcome.ended - outcome.started) / 1000
    return AttemptEnded(execution, ending.change.to, execution.failures + 1, took, reason="completed")


class Worker:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        runner: Runner,
        leases: Leases,
        settings: WorkerSettings,
        clock: Clock,
        chance: Chance,
        emit: Emit,
        on_follow_up: Callable[[], None],
        on_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._registry, self._leases = store, registry, leases
        self._settings, self._clock, self._chance, self._emit = settings, clock, chance, emit
        self._emit_many = emit_many_of(emit)
        self._on_follow_up, self._on_waiting = on_follow_up, on_waiting
        self._slots = Slots(settings.concurrency, registry, runner, leases, clock, emit, self._ended)
        self._notes = Notes(store, self._slots, leases, clock, emit, settings.poll_interval)
        self._endings: list[_Ending] = []
        self._turn = 0
        self._unheard = False
        self._solitude = Solitude()
        self._under_way = 0
        self._asked = 0  # how many the exchanges under way may bring
        self._asked_alone = False
        self._main_loop = Loop("worker", self._exchange, emit)
        self._more_loops = [Loop("worker", self._exchange_more, emit) for _ in range(EXCHANGES - 1)]

    @property
    def running(self) -> int:
        return self._slots.running

    def start(self) -> None:
        _prepare_collector()
        for loop in (self._main_loop, *self._more_loops, self._notes.loop):
            loop.start()

    def wake(self, topic: Topic = Topic.WORK) -> None:
        if topic in (Topic.CANCEL, Topic.ANY) and self._slots.held:
            self._notes.loop.wake()
        if topic in (Topic.WORK, Topic.ANY):
            self._main_loop.wake()

    # --- stop ---------------------------------------------------------------------------------------------
    def take_no_more(self) -> None:
        """From now on nothing is claimed, and what was fetched ahead goes back."""
        self._slots.draining = True
        self._slots.hand_back_ahead()

    async def stop(self, patience: float, reserve: float) -> int:
        """Drain: running handlers get `patience` seconds, then are stopped and handed back uncounted.

        Everything is settled, and this returns, within `patience + reserve`. Returns how many were handed back.
        """
        self.take_no_more()
        await self._until_idle(patience)
        unfinished = list(self._slots.runs.values())
        for run in unfinished:
            run.stop("handed_back", "the worker is shutting down")
        if unfinished:
            await self._until_idle(reserve * 0.4)
        self._slots.abandon_all()
        await self._settle_rest(reserve * 0.5)
        return len(unfinished)

    async def _until_idle(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(max(timeout, 0)):
                await self._slots.idle.wait()
        except TimeoutError:
            pass

    async def _settle_rest(self, timeout: float) -> None:
        """Loops end after their step; what is left to settle is tried until time is up."""
        loops = [self._notes.loop, *self._more_loops, self._main_loop]
        try:
            async with asyncio.timeout(max(timeout, 0.1)):
                for loop in loops:
                    await loop.stop()
                while self._endings:
                    await self._settle_again()
        except TimeoutError:
            for loop in loops:
                await loop.abort()

    async def _settle_again(self) -> None:
        try:
            await self._exchange()
        except StoreError:
            await asyncio.sleep(FIRST_PAUSE)

    # --- exchange -----------------------------------------------------------------------------------------
    async def _exchange(self) -> float:
        if self._under_way and not self._worth_another():
            return self._settings.poll_interval  # woken when the other one is back
        endings, self._endings = self._endings, []
        claim = self._claim_request()
        if not endings and claim is None:
            return self._settings.poll_interval
        reply = await self._send(endings, claim)
        completed = [each for each in zip(endings, reply.applied, strict=True) if self._settled(*each)]
        if completed:
            self._tell_completed([ending for ending, _ in completed])
        if claim is not None:
            self._solitude.learned(reply.alone_waiting, claim.alone and bool(reply.claimed), self._clock.monotonic())
        await self._take(reply)
        return self._delay(reply, claim)

    async def _exchange_more(self) -> float:
        """Beside the main loop, when so much has ended that it should not wait for the exchange under way."""
        if not (self._under_way and self._worth_another()):
            return UNTIL_WOKEN
        try:
            await self._exchange()
        finally:
            self._main_loop.wake()
        return 0.0

    def _worth_another(self) -> bool:
        return len(self._endings) >= self._under_way * BATCH

    async def _send(self, endings: list[_Ending], claim: ClaimRequest | None) -> Exchanged:
        asked = claim.limit if claim is not None else 0
        self._under_way += 1
        self._asked += asked
        self._asked_alone = claim is not None and claim.alone
        try:
            if endings:
                await self._notes.write([ending.run for ending in endings])
            return await self._store.exchange([ending.change for ending in endings], claim)
        except BaseException:
            self._endings = endings + self._endings
            raise
        finally:
            self._under_way -= 1
            self._asked -= asked
            self._asked_alone = False

    def _claim_request(self) -> ClaimRequest | None:
        slots = self._slots
        room = min(slots.room - self._asked, MOST_AT_ONCE)
        handlers = self._registry.names - self._settings.exclude
        if slots.draining or self._unheard or room <= 0 or not handlers or slots.taken_alone or self._asked_alone:
            return None
        busy = slots.held + self._asked
        if self._solitude.holds_back(busy, self._clock.monotonic()):
            return None
        alone = self._solitude.wants(busy)
        self._turn += 1
        return ClaimRequest(
            owner=self._leases.info.id,
            handlers=handlers,
            queues=self._settings.queues,
            limit=1 if alone else room,
            lease=self._settings.lease,
            turn=self._turn,
            alone=alone,
        )

    async def _take(self, reply: Exchanged) -> None:
        idle = not self._slots.held
        claimed = of_stopped_jobs(reply) if reply.stopped else reply.claimed
        for execution in claimed:
            self._slots.take(execution)
        if reply.claimed and idle:
            self._notes.loop.wake()  # it looks rarely while nothing runs; what was taken just now begins first
        for blocked in reply.blocked:
            await self._supersede(blocked)

    async def _supersede(self, blocked: Blocked) -> None:
        """A job that cancels its running execution: the net under the scheduler's own request."""
        if blocked.execution.rules.overlap != "cancel_running" or blocked.holder is None:
            return
        holder = await self._store.execution(blocked.holder)
        if holder is not None and is_superseded(holder) and holder.job_id == blocked.execution.job_id:
            await cancel_all(self._store, [holder], f"superseded by {blocked.execution.id}", self._emit)

    def _delay(self, reply: Exchanged, claim: ClaimRequest | None) -> float:
        if self._endings:
            return 0.0
        if claim is not None and (reply.more or len(reply.claimed) >= claim.limit):
            return 0.0 if self._slots.room > 0 else self._settings.poll_interval
        if self._solitude.waiting and not self._slots.held:
            return 0.0
        if reply.next_due is None:
            return self._settings.poll_interval
        return min(max((reply.next_due - reply.now) / SECOND, 0.001), self._settings.poll_interval)

    # --- endings ------------------------------------------------------------------------------------------
    def _ended(self, run: Run, outcome: Outcome) -> None:
        try:
            roll = 0.0 if outcome.end == "completed" else self._chance.random()
            change = transitions.after_attempt(run.execution, outcome, roll)
        except Exception as error:  # rules this release cannot read: the lease runs out, and another node decides
            self._leases.give_up(run.execution)
            self._emit(trouble(f"ending of {run.execution.id}", error))
        else:
            self._endings.append(_Ending(run, outcome, change))
        self._main_loop.wake()
        if 0 < self._under_way < EXCHANGES and self._worth_another():
            self._more_loops[self._under_way - 1].wake()

    def _settled(self, ending: _Ending, applied: bool) -> bool:
        """Whether it completed: that is not told yet."""
        run, outcome, change = ending
        self._leases.give_up(run.execution)
        if not applied:
            self._emit(Fenced(run.execution, "ending"))
            return False
        if change.todo:
            self._on_follow_up()
        if outcome.end == "completed":
            return True
        if change.to is State.WAITING:
            self._on_waiting()  # its tenants may have ended before it began to wait for them
        self._emit(
            AttemptEnded(
                execution=run.execution,
                state=change.to,
                attempt=run.execution.attempt,
                duration_ms=(outcome.ended - outcome.started) / 1000,
                error=outcome.error,
                traceback=outcome.traceback,
                retry_in=change.delay if change.to is State.PENDING else None,
                reason=change.reason or outcome.end,
            )
        )
        return False

    def _tell_completed(self, endings: list[_Ending]) -> None:
        """Of all that an exchange settled, at once."""
        executions = [ending.run.execution for ending in endings]
        self._emit_many(AttemptEnded, executions, partial(list, map(_completed, endings)))

    # --- heart --------------------------------------------------------------------------------------------
    def beaten(self, reply: HeartbeatReply) -> None:
        """A heartbeat came back: stop what is lost and what was asked to stop."""
        if self._unheard:
            self._unheard = False
            self._main_loop.wake()
        for id in sorted(reply.lost):
            self._slots.lose_id(id)
        for id, reason in reply.cancels.items():
            self._slots.cancel(id, reason)

    def cut_off(self) -> None:
        """No beat got through for a whole lease: what runs here may run elsewhere by now. No claims until one does."""
        self._unheard = True
        self._slots.lose_all()
