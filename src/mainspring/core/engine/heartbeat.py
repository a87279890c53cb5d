"""Heartbeats: leases are renewed from a thread of their own, so that a handler that blocks the event loop, or a
long drain, never costs a lease.

A process whose beats have failed, or hung, for a whole lease must assume that its work belongs to others by now:
it is cut off, and stops its own handlers.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sized
from typing import Protocol

import msgspec

from ...model.execution import ExecutionRow
from ...model.store.messages import HeartbeatReply, HeartbeatRequest, WorkerInfo
from ...model.time.instants import seconds_to_micros
from ..ports import Clock

LAST_BEAT = 5.0
"""Seconds a stopping heart waits for the beat under way."""


class Leases:
    """What this process holds right now, and who it is. Shared by the worker, inline tracking and the heart."""

    def __init__(self, info: WorkerInfo, lease: float) -> None:
        self.info = info
        self.lease = lease
        self.held: dict[str, int] = {}
        self.waiting: Sized = ()
        """Those held that have not begun."""

    def heartbeat(self) -> HeartbeatRequest:
        held = tuple(self.held.copy().items())
        running = max(len(held) - len(self.waiting), 0)
        return HeartbeatRequest(
            worker=msgspec.structs.replace(self.info, running=running), leases=held, lease=self.lease
        )

    def give_up(self, execution: ExecutionRow) -> None:
        """Hold it no longer, unless it is held by a later claim."""
        if self.held.get(execution.id) == execution.token:
            del self.held[execution.id]

    def news(self, beat: HeartbeatRequest, reply: HeartbeatReply) -> HeartbeatReply:
        """The reply to this beat without losses that are no news: given up since, or held by a later claim."""
        sent = dict(beat.leases)
        lost = frozenset(id for id in reply.lost if self.held.get(id) == sent[id])
        return msgspec.structs.replace(reply, lost=lost)


class Heartbeat(Protocol):
    def start(self) -> None: ...
    def wake(self) -> None: ...
    async def stop(self, timeout: float = 5.0) -> None: ...


OnReply = Callable[[HeartbeatReply], None]
OnCutOff = Callable[[], None]


class Pulse:
    """The arithmetic of beating: when the last one got through, and whether that is a lease ago."""

    def __init__(self, clock: Clock, lease: float) -> None:
        self._clock = clock
        self._lease = lease
        self._last = clock.monotonic()

    def heard(self, sent: float) -> None:
        """A beat sent at that monotonic time got through: the lease runs from then."""
        self._last = sent

    def cut_off(self) -> bool:
        return self._clock.monotonic() - self._last >= self._lease


class HeartbeatThread:
    """Beats on its own thread through the store's blocking `beat`."""

    def __init__(
        self,
        send: Callable[[HeartbeatRequest], HeartbeatReply],
        leases: Leases,
        clock: Clock,
        interval: float,
        on_reply: OnReply,
        on_cut_off: OnCutOff,
    ) -> None:
        self._send, self.leases, self._clock, self._interval = send, leases, clock, interval
        self._on_reply, self._on_cut_off = on_reply, on_cut_off
        self._pulse = Pulse(clock, leases.lease)
        self._nudge = threading.Event()
        self._stopping = False
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="mainspring-heartbeat", daemon=True)
        self._watch: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._thread.start()
        self._watch = asyncio.create_task(self._watch_pulse(), name="mainspring-pulse")

    def wake(self) -> None:
        self._nudge.set()

    async def stop(self, timeout: float = 5.0) -> None:
        """A beat that hangs is not waited for beyond the timeout: its thread ends with the process."""
        self._stopping = True
        self._nudge.set()
        if self._thread.is_alive():
            await self._until_ended()
        if self._watch is not None and self._loop is asyncio.get_running_loop():
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        elif self._watch is not None:  # started on another loop, which may be closed by now
            self._tell(self._watch.cancel)

    async def _until_ended(self) -> None:
        """A beat that hangs is not waited for: its thread is a daemon."""
        try:
            async with asyncio.timeout(LAST_BEAT):
                await self._ended.wait()
        except TimeoutError:
            return
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            self._beat()
            self._nudge.wait(self._interval)
            self._nudge.clear()
        self._tell(self._ended.set)

    def _beat(self) -> None:
        sent = self._clock.monotonic()
        beat = self.leases.heartbeat()
        try:
            reply = self._send(beat)
        except Exception:
            return  # the watch counts the silence
        self._pulse.heard(sent)
        self._tell(self._heard, beat, reply, self._clock.monotonic())

    async def _watch_pulse(self) -> None:
        """From the event loop, because a beat may hang. A process just woken from a pause gets time for a beat: only
        a silence seen twice is one."""
        suspected = False
        while True:
            await asyncio.sleep(self._interval / 2)
            silent = self._pulse.cut_off()
            if silent and suspected:
                self._on_cut_off()
            suspected = silent

    def _heard(self, beat: HeartbeatRequest, reply: HeartbeatReply, received: float) -> None:
        """On the event loop, which may have been blocked since: the store's clock has gone on meanwhile."""
        now = reply.now + seconds_to_micros(self._clock.monotonic() - received)
        self._on_reply(self.leases.news(beat, msgspec.structs.replace(reply, now=now)))

    def _tell(self, callback: Callable[..., object], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)


class HeartbeatTask:
    """Beats as a task of the event loop: for virtual time, where there are no threads."""

    def __init__(
        self,
        send: Callable[[HeartbeatRequest], Awaitable[HeartbeatReply]],
        leases: Leases,
        clock: Clock,
        interval: float,
        on_reply: OnReply,
        on_cut_off: OnCutOff,
    ) -> None:
        self._send, self._leases, self._clock, self._interval = send, leases, clock, interval
        self._on_reply, self._on_cut_off = on_reply, on_cut_off
        self._pulse = Pulse(clock, leases.lease)
        self._nudge = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="mainspring-heartbeat")

    def wake(self) -> None:
        self._nudge.set()

    async def stop(self, timeout: float = 5.0) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._beat()
            try:
                async with asyncio.timeout(self._interval):
                    await self._nudge.wait()
            except TimeoutError:
                pass
            self._nudge.clear()

    async def _beat(self) -> None:
        sent = self._clock.monotonic()
        beat = self._leases.heartbeat()
        try:
            reply = await self._send(beat)
        except Exception:
            if self._pulse.cut_off():
                self._on_cut_off()
            return
        self._pulse.heard(sent)
        self._on_reply(self._leases.news(beat, reply))
