"""A worker for tests: one execution at a time, from its claim to its end, by the rules of the real worker.

Claims, contexts, timeouts and endings are those of `core`. There is no concurrency, no lease that runs out and no
prefetch. The exception of a handler is kept as it was raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from ..core.declaring.context import JobContext
from ..core.declaring.registry import Handler, Registry
from ..core.engine.runner import Run, Runner
from ..core.engine.thread_pool import Threads
from ..core.engine.worker import attempt_ended
from ..core.loops import Emit
from ..core.ports import Clock, Store
from ..core.rules import transitions
from ..core.tenants.fan_out import FanOuts
from ..model.events import Started
from ..model.execution import ExecutionRow, Outcome
from ..model.store.messages import Change, ClaimRequest
from ..model.values.ids import Chance

OWNER = "testing-kit"
LEASE = 365 * 86_400.0
"""Seconds; so long that no lease expires, however far a test moves its clock."""


class Ran(msgspec.Struct, frozen=True):
    """One attempt: its execution, the transition it led to, its outcome, and what the handler raised."""

    execution: ExecutionRow
    change: Change
    outcome: Outcome
    error: BaseException | None

    @property
    def failure(self) -> BaseException | None:
        """The exception a test should fail with. A snooze, a cancel and a hand-back are not failures."""
        if self.outcome.end == "timeout":
            return TimeoutError(self.outcome.error)
        return self.error if self.outcome.end == "failed" else None


class _Witness:
    """A handler that keeps the exception it raised: core keeps only the text."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.is_async, self.around = handler.is_async, handler.around
        self.error: BaseException | None = None

    def call(self, context: JobContext, params: str) -> Callable[[], Any]:
        try:
            work = self._handler.call(context, params)
        except BaseException as error:
            self.error = error
            raise
        return self._watched_task(work) if self.is_async else self._watched(work)

    def _watched(self, work: Callable[[], Any]) -> Callable[[], Any]:
        def watched() -> Any:
            __tracebackhide__ = True
            try:
                return work()
            except BaseException as error:
                self.error = error
                raise

        return watched

    def _watched_task(self, work: Callable[[], Any]) -> Callable[[], Any]:
        async def watched() -> Any:
            __tracebackhide__ = True
            try:
                return await work()
            except BaseException as error:
                self.error = error
                raise

        return watched


class OneByOne:
    """Runs executions, inside a running event loop; `close` ends its thread."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        chance: Chance,
        emit: Emit,
        patience: float,
        threads: Threads,
        **context: Any,
    ) -> None:
        """`patience` is how many seconds of real time a handler may take; `context` is for the handlers' contexts."""
        self._store, self._registry, self._clock = store, registry, clock
        self._chance, self._emit, self._patience = chance, emit, patience
        self._threads = threads
        self._runner = Runner(clock, threads, OWNER, fan_outs=FanOuts(store, registry, clock, emit), **context)
        self._turn = 0

    def close(self) -> None:
        self._threads.close()

    async def run_next(self) -> Ran | None:
        """Run what a worker would claim next; None when nothing is ready."""
        self._turn += 1
        request = ClaimRequest(
            owner=OWNER, handlers=self._registry.names, queues=None, limit=1, lease=LEASE, turn=self._turn
        )
        reply = await self._store.exchange([], request)
        return await self._run(reply.claimed[0]) if reply.claimed else None

    async def _run(self, execution: ExecutionRow) -> Ran:
        handler = self._registry.get(execution.handler)
        run, witness = self._runner.prepare(execution, handler), _Witness(handler)
        run.handler = witness  # type: ignore[assignment]
        self._emit(Started(execution, run.started))
        outcome = await self._outcome(run)
        await self._note(run)
        change = await self._settle(run, outcome)
        return Ran(execution, change, outcome, witness.error)

    async def _outcome(self, run: Run) -> Outcome:
        ended: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        self._runner.begin(run, lambda _, outcome: None if ended.done() else ended.set_result(outcome))
        done, _ = await asyncio.wait([ended], timeout=self._patience)
        if not done:
            run.stop("cancelled", "the test has lost its patience")
            await asyncio.wait([ended], timeout=1)
            raise AssertionError(_stuck(run.execution, self._patience))
        outcome = ended.result()
        if outcome is None:  # cancelled from outside before its first step
            raise asyncio.CancelledError
        return outcome

    async def _note(self, run: Run) -> None:
        """Progress, counters and log lines."""
        if (report := run.drain_report()) is not None:
            await self._store.report([report])

    async def _settle(self, run: Run, outcome: Outcome) -> Change:
        """Keep successes even if the job does not, so that a test can look at them."""
        asked = (await self._store.cancels(OWNER)).get(run.execution.id)
        if asked is not None:
            run.cancel(asked, self._clock.now())
        decided = transitions.after_attempt(run.execution, outcome, self._chance.random())
        change = msgspec.structs.replace(decided, keep=True)
        await self._store.exchange([change], None)
        self._emit(attempt_ended(run.execution, outcome, change))
        return change


def _stuck(execution: ExecutionRow, patience: float) -> str:
    return (
        f"the handler of {execution.job!r} has not ended after {patience:g} s of real time. It may sleep for real, "
        f"wait for a server, or for another execution: a test runs one at a time. Replace what it waits for, or give "
        f"harness(app, patience=...)"
    )
