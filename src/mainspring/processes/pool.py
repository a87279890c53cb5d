"""The child processes of one worker: started when they are needed, kept warm, replaced when they are worn or broken.

Each child leads a process group of its own, which is killed with it. If the worker itself is killed, the kernel kills
its children (Linux), the end of their channels makes them end themselves, and the guardian kills what is left.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import msgspec

from ..core.ports import Clock, IsolatedAttempt, ProcessDied, StopKind
from ..model.errors import ConfigurationError
from .frames import Refused, Report, Result, Setup, Start
from .member import Member, emit_records, offset_of
from .resources import megabytes
from .rules import Killed, PoolSettings, graces, how_it_ended, is_worn
from .watch import Watch

START_LIMIT = 60.0
"""Seconds in which a child should have imported the application."""
SWEEP_EVERY = 10.0
IDLE_FOR = 60.0
"""Seconds after which a child that is not needed ends; one is kept."""
KILL_PATIENCE, GUARDIAN_PATIENCE = 2.0, 1.0
"""Seconds after which nobody waits any more for a child that was killed, and for the guardian: it has nothing to do but
to end."""


class IsolatedRun:
    """An attempt in the hands of the pool."""

    __slots__ = ("_pool", "abandoned", "attempt", "member")

    def __init__(self, pool: ProcessPool, attempt: IsolatedAttempt) -> None:
        self._pool, self.attempt = pool, attempt
        self.member: Member | None = None
        self.abandoned = False

    def stop(self, kind: StopKind, reason: str, within: float | None = None) -> None:
        if kind == "handed_back":
            self._pool.drain()
        if self.member is not None:
            self.member.stop(kind, reason, graces(self._pool.settings, within))
        else:
            self._pool.leave_out(self)

    def kill(self) -> None:
        self.abandoned = True
        self._pool.drain()
        if self.member is not None:
            self.member.kill()


class Guardian:
    """A process that outlives this one by a moment, to kill the groups that are left."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("guardian.py")
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        assert self._popen.stdin is not None
        os.set_blocking(self._popen.stdin.fileno(), False)  # nor does anyone wait for one that was stopped

    def add(self, group: int) -> None:
        self._write(f"+{group}\n")

    def discard(self, group: int) -> None:
        self._write(f"-{group}\n")

    def close(self) -> None:
        """Waits until it has ended, so not on the event loop."""
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        try:
            self._popen.wait(GUARDIAN_PATIENCE)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    def _write(self, line: str) -> None:
        assert self._popen.stdin is not None
        with suppress(OSError):  # someone has killed it: the other ways remain
            self._popen.stdin.write(line.encode())


class ProcessPool:
    """Made inside a running event loop. `command` starts a child; the descriptor of its channel and the id of this
    process are added to it."""

    def __init__(self, command: Sequence[str], setup: Setup, settings: PoolSettings, clock: Clock) -> None:
        self.settings = settings
        self._command, self._setup, self._clock = command, setup, clock
        self._loop = asyncio.get_running_loop()
        self._numbers = count(1)
        self._guardian: Guardian | None = None
        self._watch = Watch()
        self._starting: set[Member] = set()
        self._idle: deque[Member] = deque()
        self._idle_since: dict[Member, float] = {}
        self._busy: dict[Member, IsolatedRun] = {}
        self._leaving: set[Member] = set()
        self._waiting: deque[IsolatedRun] = deque()
        self._first: asyncio.Future[None] | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._draining = False

    @property
    def pids(self) -> list[int]:
        """Of all children that work or could."""
        return [member.pid for member in (*self._starting, *self._idle, *self._busy)]

    async def start(self) -> None:
        """Start the first child, and wait until it has imported the application."""
        if self._idle or self._busy:
            return
        self._first = self._loop.create_future()
        try:
            self._spawn()
            await self._first
        except OSError as error:
            raise ConfigurationError(f"no child process could be started for isolated jobs: {error}") from error
        finally:
            self._first = None

    def run(self, attempt: IsolatedAttempt) -> IsolatedRun:
        run = IsolatedRun(self, attempt)
        self._waiting.append(run)
        self._dispatch()
        return run

    def leave_out(self, run: IsolatedRun) -> None:
        """It was asked to stop while it waited for a child."""
        with suppress(ValueError):
            self._waiting.remove(run)
            run.attempt.begins()

    # --- which child runs what ----------------------------------------------------------------------------
    def _dispatch(self) -> None:
        while self._waiting and self._idle:
            run = self._waiting.popleft()
            if run.attempt.begins():
                self._begin(self._idle.pop(), run)
        while len(self._waiting) > len(self._starting) and len(self.pids) < self.settings.most and not self._draining:
            try:
                self._spawn()
            except OSError as error:
                self._give_up(f"no process could be started: {error}")

    def _begin(self, member: Member, run: IsolatedRun) -> None:
        del self._idle_since[member]
        self._busy[member] = run
        run.member, attempt = member, run.attempt
        member.begin(
            Start(
                number=next(self._numbers),
                execution=attempt.execution,
                worker=attempt.worker,
                started=attempt.started,
                began=attempt.began,
                limit=attempt.limit,
                offset=offset_of(self._clock.now(), self._clock.monotonic()),
                trace=attempt.trace_headers,
            )
        )
        self._watch.add(member)

    def _give_up(self, error: str) -> None:
        """No child can be had: the attempt that waits longest fails with the reason, if it has not to be left out."""
        run = self._waiting.popleft()
        if run.attempt.begins():
            self._loop.call_soon(run.attempt.ended, ProcessDied("error", error))

    # --- the life of children -----------------------------------------------------------------------------
    def _spawn(self) -> None:
        if self._guardian is None:
            self._guardian = Guardian()
        member = Member(self, self._command, self._setup, self.settings.term_grace)
        member.set_start_limit(START_LIMIT)
        self._guardian.add(member.pid)
        self._starting.add(member)
        self._empty.clear()
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(SWEEP_EVERY, self._sweep)

    def on_ready(self, member: Member) -> None:
        self._starting.discard(member)
        self._rest(member)
        if self._first is not None and not self._first.done():
            self._first.set_result(None)
        self._dispatch()

    def on_refused(self, member: Member, message: Refused) -> None:
        what = "run the setup hooks of" if message.imported else "import"
        error = f"a child process cannot {what} the application {self._setup.import_path!r}: {message.error}"
        member.killed = Killed("error", error)

    def on_report(self, member: Member, report: Report) -> None:
        run = self._busy.get(member)
        if run is not None and report.number == member.number:
            emit_records(report, member.pid)
            if not run.abandoned:
                run.attempt.reported(report.progress, report.counters, report.lines, report.labels)

    def on_result(self, member: Member, result: Result) -> None:
        run = self._busy.pop(member, None)
        self._watch.discard(member)
        if run is None:
            return
        emit_records(result.report, member.pid)
        outcome, peak = result.outcome, megabytes(member.peak)
        if peak is not None and outcome.memory_mb is not None and peak > outcome.memory_mb:
            outcome = msgspec.structs.replace(outcome, memory_mb=peak)  # its own children held memory as well
        age = self._loop.time() - member.since
        if result.reusable and not is_worn(self.settings, member.executions, age, member.growth):
            self._rest(member)
        else:
            self._retire(member)
        if not run.abandoned:
            report = result.report
            run.attempt.reported(report.progress, report.counters, report.lines, report.labels)
            run.attempt.ended(outcome)
        self._dispatch()

    def on_gone(self, member: Member, code: int | None, cpu: float | None) -> None:
        """The process has ended, for whatever reason."""
        if self._guardian is not None:
            self._guardian.discard(member.pid)
        self._watch.discard(member)
        was_idle = self._forget(member)
        run = self._busy.pop(member, None)
        if not member.ready:
            self._not_started(member, code)
        elif was_idle:
            self._keep_one()
        if run is not None and not run.abandoned:
            how = how_it_ended(code, member.killed)
            cpu_ms = None if cpu is None else max(0.0, cpu - member.cpu_before) * 1000
            run.attempt.ended(ProcessDied(how.reason, how.error, member.stack, cpu_ms, megabytes(member.peak)))
        if run is not None:
            self._keep_one()
        self._dispatch()
        if not (self._starting or self._idle or self._busy or self._leaving):
            self._empty.set()

    def _not_started(self, member: Member, code: int | None) -> None:
        """It ended before it had imported the application."""
        how = how_it_ended(code, member.killed)
        if self._first is not None and not self._first.done():
            self._first.set_exception(ConfigurationError(how.error))
        elif self._waiting:
            self._give_up(how.error)

    def _rest(self, member: Member) -> None:
        self._idle.append(member)
        self._idle_since[member] = self._loop.time()

    def _retire(self, member: Member) -> None:
        self._forget(member)
        self._leaving.add(member)
        member.leave()
        self._keep_one()

    def _forget(self, member: Member) -> bool:
        """Returns whether it was idle."""
        self._starting.discard(member)
        self._leaving.discard(member)
        was_idle = self._idle_since.pop(member, None) is not None
        if was_idle:
            self._idle.remove(member)
        return was_idle

    def _keep_one(self) -> None:
        """A child is ready for the next attempt, so that it need not wait for an import."""
        if not self._draining and not self._starting and not self._idle and len(self.pids) < self.settings.most:
            with suppress(OSError):
                self._spawn()

    def _sweep(self) -> None:
        """End what is not needed, or too old."""
        self._sweeping = self._loop.call_later(SWEEP_EVERY, self._sweep)
        now = self._loop.time()
        for member in list(self._idle):
            unused = now - self._idle_since[member] > IDLE_FOR and len(self._idle) > 1
            if unused or is_worn(self.settings, member.executions, now - member.since, member.growth):
                self._retire(member)

    # --- the end ------------------------------------------------------------------------------------------
    def drain(self) -> None:
        """The worker stops: start no further child."""
        self._draining = True

    async def close(self, patience: float) -> None:
        """End all children: those that are idle by themselves, if they do so in time, the others at once."""
        self.drain()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for member in list(self._idle):
            self._retire(member)
        for member in (*self._starting, *self._busy):
            member.kill()
        await self._until_empty(patience)
        for member in list(self._leaving):
            member.kill()
        await self._until_empty(KILL_PATIENCE)
        self._watch.close()
        guardian, self._guardian = self._guardian, None
        if guardian is not None:
            await asyncio.to_thread(guardian.close)  # kills what is left

    async def _until_empty(self, patience: float) -> None:
        if self._starting or self._busy or self._leaving:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._empty.wait()
