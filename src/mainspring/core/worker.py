"""The worker: settle what ended and claim what is ready, in one exchange; run it; keep the leases.

Everything it writes about an execution carries the token and the owner of its claim. What the store refuses
belongs to somebody else by now, and is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from ..model.changes import BeatReply, Blocked, Change, ClaimRequest, Exchanged, Note
from ..model.errors import StoreError
from ..model.events import Ended, Fenced, Started
from ..model.execution import Execution, State
from ..model.ids import Chance
from ..model.instants import SECOND
from ..model.outcomes import Outcome
from . import decide
from .heart import Leases
from .loop import FIRST_PAUSE, Emit, Loop, trouble
from .ports import Clock, Store, Topic
from .registry import Registry
from .runner import Run, Runner
from .solitude import Solitude

NOTE_INTERVAL = 0.5
CANCEL_CHECK_INTERVAL = 0.2
UNREADABLE_PAUSE = 60.0


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    concurrency: int = 10
    queues: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()
    lease: float = 30.0
    poll_interval: float = 10.0
    identity: dict[str, Any] = {}


class _Ending(msgspec.Struct, frozen=True):
    run: Run
    outcome: Outcome
    change: Change


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
    ) -> None:
        self._store, self._registry, self._runner, self._leases = store, registry, runner, leases
        self._settings, self._clock, self._chance, self._emit = settings, clock, chance, emit
        self._on_follow_up = on_follow_up
        self._runs: dict[str, Run] = {}
        self._lost: set[Run] = set()  # handlers still at it though their lease is gone: they take room, no more
        self._endings: list[_Ending] = []
        self._turn = 0
        self._draining = False
        self._unheard = False
        self._solitude = Solitude()
        self._last_cancel_check = float("-inf")
        self._idle = asyncio.Event()
        self._idle.set()
        self._exchange_loop = Loop("worker", self._exchange, emit)
        self._notes_loop = Loop("notes", self._write_notes, emit)

    @property
    def running(self) -> int:
        return len(self._runs) + len(self._lost)

    def start(self) -> None:
        self._exchange_loop.start()
        self._notes_loop.start()

    def wake(self, topic: Topic = Topic.WORK) -> None:
        if topic in (Topic.CANCEL, Topic.ANY) and self._runs:
            self._notes_loop.wake()
        if topic in (Topic.WORK, Topic.ANY):
            self._exchange_loop.wake()

    # --- stop ---------------------------------------------------------------------------------------------
    async def stop(self, patience: float, reserve: float) -> int:
        """Drain: running handlers get `patience` seconds, then are stopped and handed back uncounted.

        Everything is settled, and this returns, within `patience + reserve`. Returns how many were handed back.
        """
        self._draining = True
        await self._until_idle(patience)
        unfinished = list(self._runs.values())
        for run in unfinished:
            run.stop("handed_back", "the worker is shutting down")
        if unfinished:
            await self._until_idle(reserve * 0.4)
        for run in self._lost:
            run.abandoned = True
        for run in list(self._runs.values()):
            self._abandon(run)
        await self._settle_rest(reserve * 0.5)
        return len(unfinished)

    async def _until_idle(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(max(timeout, 0)):
                await self._idle.wait()
        except TimeoutError:
            pass

    def _abandon(self, run: Run) -> None:
        """The handler does not end: hand its execution back without it. Its token keeps it from writing."""
        run.abandoned = True
        ended = max(self._clock.now(), run.started)
        outcome = Outcome(end="handed_back", started=run.started, ended=ended, worker=self._leases.info.id)
        self._end(run, outcome)

    async def _settle_rest(self, timeout: float) -> None:
        """Loops end after their step; what is left to settle is tried until time is up."""
        try:
            async with asyncio.timeout(max(timeout, 0.1)):
                await self._notes_loop.stop()
                await self._exchange_loop.stop()
                while self._endings:
                    await self._settle_again()
        except TimeoutError:
            await self._notes_loop.abort()
            await self._exchange_loop.abort()

    async def _settle_again(self) -> None:
        try:
            await self._exchange()
        except StoreError:
            await asyncio.sleep(FIRST_PAUSE)

    # --- exchange -----------------------------------------------------------------------------------------
    async def _exchange(self) -> float:
        endings, self._endings = self._endings, []
        claim = self._claim_request()
        if not endings and claim is None:
            return self._settings.poll_interval
        try:
            await self._store_notes([ending.run for ending in endings])
            reply = await self._store.exchange([ending.change for ending in endings], claim)
        except BaseException:
            self._endings = endings + self._endings
            raise
        for ending, applied in zip(endings, reply.applied, strict=True):
            self._settled(ending, applied)
        if claim is not None:
            self._solitude.learned(reply.alone_waiting, claim.alone and bool(reply.claimed), self._clock.monotonic())
        await self._take(reply)
        return self._delay(reply, claim)

    def _claim_request(self) -> ClaimRequest | None:
        free = self._settings.concurrency - self.running
        handlers = self._registry.names - self._settings.exclude
        if self._draining or self._unheard or free <= 0 or not handlers or self._running_alone():
            return None
        if self._solitude.holds_back(self.running, self._clock.monotonic()):
            return None
        alone = self._solitude.wants(self.running)
        self._turn += 1
        return ClaimRequest(
            owner=self._leases.info.id,
            handlers=handlers,
            queues=self._settings.queues,
            limit=1 if alone else free,
            lease=self._settings.lease,
            turn=self._turn,
            alone=alone,
        )

    def _running_alone(self) -> bool:
        return any(run.execution.alone for run in self._runs.values())

    async def _take(self, reply: Exchanged) -> None:
        for execution in reply.claimed:
            self._begin(execution)
        for blocked in reply.blocked:
            await self._supersede(blocked)

    async def _supersede(self, blocked: Blocked) -> None:
        """A job that cancels its running execution: the net under the scheduler's own request."""
        if blocked.execution.rules.overlap != "cancel_running" or blocked.holder is None:
            return
        holder = await self._store.execution(blocked.holder)
        if holder is not None and holder.state is State.RUNNING and holder.job_id == blocked.execution.job_id:
            request = decide.cancel(holder, self._clock.now(), f"superseded by {blocked.execution.id}")
            await self._store.request_cancel([request])  # type: ignore[list-item]

    def _delay(self, reply: Exchanged, claim: ClaimRequest | None) -> float:
        if self._endings or (claim is not None and (reply.more or len(reply.claimed) >= claim.limit)):
            return 0.0 if self._endings or self.running < self._settings.concurrency else self._settings.poll_interval
        if self._solitude.waiting and not self.running:
            return 0.0
        if reply.next_due is None:
            return self._settings.poll_interval
        return min(max((reply.next_due - reply.now) / SECOND, 0.001), self._settings.poll_interval)

    # --- running ------------------------------------------------------------------------------------------
    def _begin(self, execution: Execution) -> None:
        handler = self._registry.get(execution.handler)
        run = self._runner.prepare(execution, handler, **self._settings.identity)
        if (earlier := self._runs.get(execution.id)) is not None:
            self._lose(earlier)  # claimed anew while its handler runs on here: that lease was lost unnoticed
        self._leases.held[execution.id] = execution.token
        if not self._runs:
            self._notes_loop.wake()  # it looks rarely while nothing runs
        self._runs[execution.id] = run
        self._idle.clear()
        if execution.cancel_requested is not None or self._draining or not execution.readable:
            self._end(run, self._unstarted(run))
            return
        self._emit(Started(execution, run.started))
        run.task = asyncio.create_task(self._runner.run(run), name=execution.id)
        run.task.add_done_callback(partial(self._ran, run))

    def _unstarted(self, run: Run) -> Outcome:
        """A claim whose handler never starts: it was asked to stop before, this worker is leaving, or it is work of a
        newer release, left for a while to nodes that can read it."""
        ending: dict[str, Any] = {"end": "handed_back"}
        if not run.execution.readable:
            words = f"this release cannot read its rules: {run.execution.policy}"
            ending = {"end": "snoozed", "delay": UNREADABLE_PAUSE, "error": words}
        elif run.execution.cancel_requested is not None:
            ending = {"end": "cancelled", "reason": run.execution.cancel_reason}
        return Outcome(started=run.started, ended=run.started, worker=self._leases.info.id, **ending)

    def _ran(self, run: Run, task: asyncio.Task[Outcome]) -> None:
        """The handler is done. A task stopped before its first step has not even reached the runner."""
        if run.abandoned:
            return
        if task.cancelled():
            self._end(run, self._unstarted(run))
        elif (error := task.exception()) is not None:
            self._end(run, self._runner.escaped(run, error))
        else:
            self._end(run, task.result())

    def _end(self, run: Run, outcome: Outcome) -> None:
        """The try is over. Its lease is kept until the store has accepted or refused the ending."""
        if run in self._lost:
            self._lost.remove(run)  # its ending is sent all the same: if nobody has taken it over, it counts
        else:
            del self._runs[run.execution.id]
        if not self.running:
            self._idle.set()
        try:
            change = decide.after_attempt(run.execution, outcome, self._chance.random())
        except Exception as error:  # rules this release cannot read: the lease runs out, and another node decides
            self._leases.give_up(run.execution)
            self._emit(trouble(f"ending of {run.execution.id}", error))
        else:
            self._endings.append(_Ending(run, outcome, change))
        self._exchange_loop.wake()

    def _settled(self, ending: _Ending, applied: bool) -> None:
        run, change, outcome = ending.run, ending.change, ending.outcome
        if not applied:
            self._drop(run, "ending")
            return
        self._leases.give_up(run.execution)
        if change.todo:
            self._on_follow_up()
        self._emit(
            Ended(
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

    def _drop(self, run: Run, write: str) -> None:
        self._leases.give_up(run.execution)
        self._emit(Fenced(run.execution, write))

    # --- heart and cancellation ---------------------------------------------------------------------------
    def beaten(self, reply: BeatReply) -> None:
        """A heartbeat came back: stop what is lost and what was asked to stop."""
        if self._unheard:
            self._unheard = False
            self._exchange_loop.wake()
        for id in sorted(reply.lost & self._runs.keys()):
            self._lose(self._runs[id])
        self._cancel(reply.cancels)

    def cut_off(self) -> None:
        """No beat got through for a whole lease: what runs here may run elsewhere by now. No claims until one does."""
        self._unheard = True
        for run in list(self._runs.values()):
            self._lose(run)

    def _lose(self, run: Run) -> None:
        """Stop it, and let go of its id: the same execution may be claimed anew here before its handler has ended."""
        if self._runs.get(run.execution.id) is run:
            del self._runs[run.execution.id]
            self._lost.add(run)
            self._leases.give_up(run.execution)
            run.stop("lost", "the lease was lost")

    def _cancel(self, cancels: dict[str, str]) -> None:
        for id, reason in cancels.items():
            run = self._runs.get(id)
            if run is not None and run.stopped is None:
                run.cancel(reason, self._clock.now())

    # --- notes --------------------------------------------------------------------------------------------
    async def _write_notes(self) -> float:
        if not self._runs:
            return self._settings.poll_interval if self._draining else NOTE_INTERVAL * 4
        await self._check_cancels()
        await self._store_notes(list(self._runs.values()))
        return NOTE_INTERVAL

    async def _check_cancels(self) -> None:
        now = self._clock.monotonic()
        if now - self._last_cancel_check >= CANCEL_CHECK_INTERVAL:
            self._last_cancel_check = now
            self._cancel(await self._store.cancels(self._leases.info.id))

    async def _store_notes(self, runs: list[Run]) -> None:
        """Progress, counters and log lines, fenced like an ending: a refused note means the lease is lost."""
        noted = [(run, note) for run in runs if (note := self._note(run)) is not None]
        if not noted:
            return
        try:
            stored = await self._store.note([note for _, note in noted])
        except BaseException:
            for run, note in noted:
                run.context.undrain(note.progress_json, note.counters_json, note.logs)
            raise
        for (run, _), accepted in zip(noted, stored, strict=True):
            if not accepted:
                self._lose(run)

    def _note(self, run: Run) -> Note | None:
        drained = run.context.drain()
        if drained is None:
            return None
        progress, counters, logs = drained
        return Note(
            id=run.execution.id,
            token=run.execution.token,
            owner=self._leases.info.id,
            progress_json=progress,
            counters_json=counters,
            logs=logs,
        )
