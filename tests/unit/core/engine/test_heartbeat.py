"""The heartbeat thread, with a scripted store and on virtual time: when a lease counts as over, and what goes on after
an error. The thread is real; a test answers each of its heartbeats and waits until it has nothing to do."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mainspring.app.adapters import SystemClock
from mainspring.core.engine.heartbeat import HeartbeatThread, Leases
from mainspring.model.execution import ExecutionRow
from mainspring.model.store.messages import HeartbeatReply, HeartbeatRequest, WorkerInfo
from tests.simulator.virtual import run

LEASE, INTERVAL, MOMENT = 30.0, 10.0, 0.001
PATIENCE = 20.0  # seconds of real time for a thread to get where it is going


class LoopClock:
    """Virtual time, from the moment of its making; `lag` lets a test pause the process."""

    def __init__(self) -> None:
        self._loop, self.lag = asyncio.get_running_loop(), 0.0

    def now(self) -> int:
        return int(self.monotonic() * 1_000_000)

    def monotonic(self) -> float:
        return self._loop.time() + self.lag


class Nudge(threading.Event):
    """Between two heartbeats the thread waits here: as long as the test likes, whatever it asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: queue.Queue[float] = queue.Queue()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.asked.put(timeout)
        return super().wait(PATIENCE)


class Ground:
    def __init__(self) -> None:
        self.clock = LoopClock()
        self.leases = Leases(WorkerInfo(id="w", host="h", pid=1, version="v"), LEASE)
        self.replies: list[HeartbeatReply] = []
        self.cut_off: list[float] = []
        self._requests: queue.Queue[HeartbeatRequest] = queue.Queue()
        self._answers: queue.Queue[HeartbeatReply | Exception] = queue.Queue()
        self.nudge = Nudge()
        self.thread = HeartbeatThread(
            self._send, self.leases, self.clock, INTERVAL, self.on_reply, lambda: self.on_cut_off()
        )
        self.thread._nudge = self.nudge

    def _send(self, request: HeartbeatRequest) -> HeartbeatReply:
        self._requests.put(request)
        answer = self._answers.get(timeout=PATIENCE)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def on_reply(self, reply: HeartbeatReply) -> None:
        self.replies.append(reply)

    def on_cut_off(self) -> None:
        self.cut_off.append(self.clock.monotonic())

    def sent(self) -> HeartbeatRequest:
        """The heartbeat that waits for its answer."""
        return self._requests.get(timeout=PATIENCE)

    async def answered(self, answer: HeartbeatReply | Exception | None = None) -> float:
        """Answer it. Returns how long the thread then wants to wait."""
        self._answers.put(reply() if answer is None else answer)
        asked = self.nudge.asked.get(timeout=PATIENCE)
        await asyncio.sleep(0)  # what the thread has said reaches the event loop
        await asyncio.sleep(0)
        return asked

    async def beat(self, answer: HeartbeatReply | Exception | None = None) -> float:
        self.thread.wake()
        self.sent()
        return await self.answered(answer)


def reply(*lost: str, now: int = 0, **cancels: str) -> HeartbeatReply:
    return HeartbeatReply(lost=frozenset(lost), cancels=cancels, now=now)


@asynccontextmanager
async def ground() -> AsyncIterator[Ground]:
    """A thread whose first heartbeat, sent at 0, has not been answered."""
    each = Ground()
    each.thread.start()
    try:
        yield each
    finally:
        each._answers.put(RuntimeError("the test is over"))
        await each.thread.stop()
        each.thread._thread.join(PATIENCE)


@pytest.mark.req("WRK-8")
def test_a_lease_that_is_not_renewed_ends_at_its_instant_and_a_heartbeat_ends_the_silence() -> None:
    async def main() -> None:
        async with ground() as it:
            it.sent()
            await it.answered()
            await asyncio.sleep(LEASE - MOMENT)
            await it.beat(OSError("the store is away"))
            assert it.cut_off == []
            await asyncio.sleep(2 * MOMENT)
            assert it.cut_off == pytest.approx([LEASE])
            await asyncio.sleep(INTERVAL)  # said again, for what an exchange under way has claimed
            assert it.cut_off == pytest.approx([LEASE, LEASE + INTERVAL / 2, LEASE + INTERVAL])
            await it.beat()
            it.cut_off.clear()
            await asyncio.sleep(LEASE - 1)
            assert it.cut_off == []

    run(main())


@pytest.mark.req("WRK-8", "WRK-3")
def test_the_lease_counts_from_before_the_heartbeat_was_sent() -> None:
    """The store may have renewed the lease at any time since: an answer that took 20 s leaves 10 s of 30."""

    async def main() -> None:
        async with ground() as it:
            it.sent()
            await asyncio.sleep(20)
            await it.answered()
            await it.beat(OSError("the store is away"))
            await asyncio.sleep(LEASE - 20 + MOMENT)
            assert it.cut_off == pytest.approx([LEASE])

    run(main())


@pytest.mark.req("WRK-8")
@pytest.mark.parametrize("seconds", [LEASE, 2.5 * LEASE])
def test_a_heartbeat_that_hangs_is_silence_too(seconds: float) -> None:
    async def main() -> None:
        async with ground() as it:
            it.sent()
            await it.answered()
            it.thread.wake()
            it.sent()  # and no answer
            await asyncio.sleep(seconds + MOMENT)
            assert it.cut_off[0] == pytest.approx(LEASE)
            await it.answered()  # sent in time, answered too late: the lease is over, and others may have the work
            assert len(it.replies) == 2

    run(main())


@pytest.mark.req("WRK-3")
def test_a_slow_answer_does_not_delay_the_next_heartbeat() -> None:
    async def main() -> None:
        async with ground() as it:
            it.sent()
            assert await it.answered() == INTERVAL
            it.thread.wake()
            it.sent()
            await asyncio.sleep(4)
            assert await it.answered() == pytest.approx(INTERVAL - 4)
            it.thread.wake()
            it.sent()
            await asyncio.sleep(INTERVAL + 1)
            assert await it.answered() == 0.0

    run(main())


@pytest.mark.req("WRK-8", "WRK-4")
def test_a_process_that_wakes_from_a_pause_gets_time_for_a_heartbeat() -> None:
    async def main() -> None:
        async with ground() as it:
            it.sent()
            await it.answered()
            await asyncio.sleep(1)
            it.clock.lag += LEASE + 5  # the process stood still: no timer rang meanwhile
            await asyncio.sleep(INTERVAL / 2)
            assert it.cut_off == []
            await it.beat()
            await asyncio.sleep(INTERVAL)
            assert it.cut_off == []

            it.clock.lag += LEASE + 5
            await asyncio.sleep(INTERVAL)  # and if none gets through, it is cut off
            assert len(it.cut_off) == 1

    run(main())


def test_one_unexpected_error_stops_neither_the_heartbeats_nor_the_watch() -> None:
    async def main() -> None:
        async with ground() as it:
            complaints: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
            it.sent()
            await it.answered(RuntimeError("who expects that?"))
            await it.beat()
            assert len(it.replies) == 1

            heartbeat, failed = it.leases.heartbeat, threading.Event()

            def fails_once() -> HeartbeatRequest:
                it.leases.heartbeat = heartbeat  # type: ignore[method-assign]
                failed.set()
                raise RuntimeError("changed size during iteration")

            it.leases.heartbeat = fails_once  # type: ignore[method-assign]
            it.thread.wake()
            assert failed.wait(PATIENCE)
            it.nudge.asked.get(timeout=PATIENCE)
            await it.beat()
            assert len(it.replies) == 2

            on_reply, on_cut_off = it.on_reply, it.on_cut_off
            it.thread._on_reply = lambda _: 1 / 0  # type: ignore[assignment]
            await it.beat()
            it.thread._on_reply = on_reply
            await it.beat()
            assert len(it.replies) == 3

            it.on_cut_off = lambda: 1 / 0  # type: ignore[assignment, method-assign]
            await asyncio.sleep(LEASE + MOMENT)
            it.on_cut_off = on_cut_off  # type: ignore[method-assign]
            await asyncio.sleep(INTERVAL / 2)
            assert len(it.cut_off) == 1
            assert [type(each["exception"]) for each in complaints] == [ZeroDivisionError] * 2

    run(main())


@pytest.mark.req("WRK-3")
def test_of_several_leases_those_that_were_refused_are_lost_unless_they_have_been_given_up() -> None:
    def row(id: str, token: int) -> ExecutionRow:
        return ExecutionRow(id=id, job="j", job_id="i", handler="h", token=token)

    async def main() -> None:
        async with ground() as it:
            it.sent()
            await it.answered()
            it.leases.held |= {"kept": 1, "refused": 2, "ended": 3, "again": 4}
            it.leases.slotless.append(lambda: 1)
            it.thread.wake()
            request = it.sent()
            assert dict(request.leases) == {"kept": 1, "refused": 2, "ended": 3, "again": 4}
            assert (request.worker.running, request.lease) == (3, LEASE)
            it.leases.give_up(row("ended", 3))  # while the heartbeat is under way
            it.leases.give_up(row("kept", 9))  # of another claim: nothing happens
            it.leases.held["again"] = 5
            await it.answered(reply("refused", "ended", "again", kept="please"))
            assert it.replies[-1] == reply("refused", kept="please", now=0)
            assert it.leases.held == {"kept": 1, "refused": 2, "again": 5}

    run(main())


def test_the_clock_of_the_store_goes_on_while_the_event_loop_is_blocked() -> None:
    async def main() -> None:
        async with ground() as it:
            it.sent()
            it._answers.put(reply(now=1_000_000))
            it.nudge.asked.get(timeout=PATIENCE)
            it.clock.lag += 2.5  # a handler blocks the loop before the answer is seen
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert it.replies[-1].now == 3_500_000

    run(main())


@pytest.mark.req("WRK-5")
def test_it_is_stopped_on_another_loop_than_it_was_started_on() -> None:
    """As `app.sync.close()` does after `asyncio.run(...)`: the loop of the start is closed by then."""

    async def begin() -> HeartbeatThread:
        info, ignore = WorkerInfo(id="w", host="h", pid=1, version="v"), lambda *_: None
        made = HeartbeatThread(lambda _: reply(), Leases(info, LEASE), SystemClock(), INTERVAL, ignore, ignore)
        made.start()
        return made

    async def end(made: HeartbeatThread) -> bool:
        await made.stop(timeout=PATIENCE)
        return made._thread.is_alive()

    made = asyncio.run(begin())
    began = time.monotonic()
    assert asyncio.run(end(made)) is False
    assert time.monotonic() - began < PATIENCE / 2
