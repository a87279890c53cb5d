"""Heartbeats renew leases from a thread of their own: a handler that blocks the event loop, or a long drain, never
costs a lease.

A process whose heartbeats have failed, or hung, for a whole lease must assume that its work belongs to other workers by
now. It is cut off, and stops its own handlers.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

import msgspec

from ...model.execution import ExecutionRow
from ...model.store.messages import HeartbeatReply, HeartbeatRequest, WorkerInfo
from ...model.time.instants import seconds_to_micros
from ..ports import Clock

LAST_BEAT = 5.0
"""Seconds that a stop waits for the heartbeat under way."""

OnReply: TypeAlias = Callable[[HeartbeatReply], None]
OnCutOff: TypeAlias = Callable[[], None]


class Leases:
    """The executions that this process holds, for the worker, for inline tracking and for the heartbeat."""

    def __init__(self, info: WorkerInfo, lease: float) -> None:
        self.info = info
        self.lease = lease
        self.held: dict[str, int] = {}
        self.slotless: list[Callable[[], int]] = []
        """Each counts executions held that take no slot: they have not begun, or their worker has no slots."""
        self.ended: Callable[[], dict[str, tuple[int, int]]] = dict
        """How many executions ended here lately, by queue."""

    def heartbeat(self) -> HeartbeatRequest:
        held = tuple(self.held.copy().items())
        running = max(len(held) - sum(count() for count in self.slotless), 0)
        return HeartbeatRequest(
            worker=msgspec.structs.replace(self.info, running=running, ended=self.ended()),
            leases=held,
            lease=self.lease,
        )

    def give_up(self, execution: ExecutionRow) -> None:
        """Hold it no longer, unless a later claim holds it."""
        if self.held.get(execution.id) == execution.token:
            del self.held[execution.id]

    def still_held(self, sent: HeartbeatRequest, reply: HeartbeatReply) -> HeartbeatReply:
        """The reply without losses of leases that were given up since, or that a later claim holds."""
        tokens = dict(sent.leases)
        lost = frozenset(id for id in reply.lost if self.held.get(id) == tokens[id])
        return msgspec.structs.replace(reply, lost=lost)


class Silence:
    """How long no heartbeat has got through. The lease runs from the moment at which one was sent."""

    def __init__(self, clock: Clock, lease: float) -> None:
        self._clock, self._lease = clock, lease
        self.last_sent = clock.monotonic()
        """Monotonic time at which the last heartbeat that got through was sent."""

    def left(self) -> float:
        """Seconds until the silence has lasted for a whole lease; 0 or less afterwards."""
        return self.last_sent + self._lease - self._clock.monotonic()

    def outlasts_lease(self) -> bool:
        return self.left() <= 0


class Heartbeat(Protocol):
    def start(self) -> None: ...
    def wake(self) -> None: ...
    async def stop(self, timeout: float = LAST_BEAT) -> None: ...


class HeartbeatThread:
    """Calls the store's blocking `heartbeat` from its own thread."""

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
        self._silence = Silence(clock, leases.lease)
        self._nudge = threading.Event()
        self._stopping = False
        self._ended: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="mainspring-heartbeat", daemon=True)
        self._watch: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._thread.start()
        self._watch = asyncio.create_task(self._watch_silence(), name="mainspring-heartbeat-watch")

    def wake(self) -> None:
        self._nudge.set()

    async def stop(self, timeout: float = LAST_BEAT) -> None:
        """On any loop: the one it was started on may be closed by now."""
        if self._ended is None:
            self._ended = (asyncio.get_running_loop(), asyncio.Event())
        self._stopping = True
        self._nudge.set()
        if self._thread.is_alive():
            await self._until_ended(self._ended[1], timeout)
        if self._watch is not None and self._loop is asyncio.get_running_loop():
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        elif self._watch is not None:
            self._on_loop(self._loop, self._watch.cancel)

    async def _until_ended(self, ended: asyncio.Event, timeout: float) -> None:
        """A heartbeat that hangs is not waited for: its thread is a daemon, and ends with the process."""
        try:
            async with asyncio.timeout(timeout):
                await ended.wait()
        except TimeoutError:
            return
        self._thread.join()

    def _run(self) -> None:
        """An answer that was slow does not delay the next heartbeat."""
        while not self._stopping:
            sent = self._clock.monotonic()
            with suppress(Exception):  # `send` reports its errors, and the watch measures the silence
                self._beat(sent)
            self._nudge.wait(max(0.0, sent + self._interval - self._clock.monotonic()))
            self._nudge.clear()
        if self._ended is not None:
            loop, ended = self._ended
            self._on_loop(loop, ended.set)

    def _beat(self, sent: float) -> None:
        request = self.leases.heartbeat()
        reply = self._send(request)
        self._silence.last_sent = sent
        self._on_loop(self._loop, self._received, request, reply, self._clock.monotonic())

    async def _watch_silence(self) -> None:
        """On the event loop, because a heartbeat may hang. Cuts off at the instant at which the lease ends, and again
        while the silence lasts, for what an exchange under way has claimed meanwhile. A process that wakes from a pause
        gets time for a heartbeat first."""
        most = self._interval / 2
        while True:
            began, left = self._clock.monotonic(), self._silence.left()
            planned = min(left, most) if left > 0 else most
            await asyncio.sleep(planned)
            paused = self._clock.monotonic() - began - planned > most
            if not paused and self._silence.outlasts_lease():
                self._loop.call_soon(self._on_cut_off)

    def _received(self, request: HeartbeatRequest, reply: HeartbeatReply, received: float) -> None:
        """On the event loop, which may have been blocked since: the store's clock has gone on meanwhile."""
        now = reply.now + seconds_to_micros(self._clock.monotonic() - received)
        self._on_reply(self.leases.still_held(request, msgspec.structs.replace(reply, now=now)))

    @staticmethod
    def _on_loop(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(callback, *arguments)
