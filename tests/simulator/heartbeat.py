"""Heartbeats of a simulated process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mainspring.core.engine.heartbeat import Leases, OnCutOff, OnReply, Silence
from mainspring.core.ports import Clock
from mainspring.model.store.messages import HeartbeatReply, HeartbeatRequest


class HeartbeatTask:
    """Sends heartbeats from a task of the event loop: there are no threads in virtual time."""

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
        self._silence = Silence(clock, leases.lease)
        self._nudge = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="mainspring-heartbeat")

    def wake(self) -> None:
        self._nudge.set()

    async def stop(self, timeout: float = 0.0) -> None:
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
        request = self._leases.heartbeat()
        try:
            reply = await self._send(request)
        except Exception:
            if self._silence.outlasts_lease():
                self._on_cut_off()
            return
        self._silence.last_sent = sent
        self._on_reply(self._leases.still_held(request, reply))
