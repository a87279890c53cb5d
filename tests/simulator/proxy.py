"""The store as one process sees it: far away, slow now and then, and not always there.

Every primitive is a request and a reply. Before the request arrives and before the reply does, the process may be
killed or stopped, or the connection may break: what was asked is then done or not, and the process cannot tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from mainspring.core.ports import Store, Topic, Unsubscribe
from mainspring.model.errors import StoreError
from mainspring.model.execution import ExecutionRow
from mainspring.model.store.messages import HeartbeatReply, HeartbeatRequest
from mainspring.stores.memory import MemoryStore
from tests.simulator.faults import Fault, Faults
from tests.simulator.judge import Judge
from tests.simulator.ledger import Ledger
from tests.simulator.process import Process

LONGEST_BEAT = 0.9
LONGEST_CALL = 2.5
"""Seconds that a slow message takes, one way. Two slow beats in a row must not cost a lease."""


class Network:
    """What all processes share: one store, the ledger that watches it, and the faults between them."""

    def __init__(self, store: MemoryStore, ledger: Ledger, faults: Faults, judge: Judge, lease: float) -> None:
        self.store, self.ledger, self.faults, self.judge, self.lease = store, ledger, faults, judge, lease
        self._listeners: dict[int, tuple[Process, Callable[[Topic], None]]] = {}
        self._next = 0
        store.listen(self._tell)

    def listen(self, process: Process, callback: Callable[[Topic], None]) -> Unsubscribe:
        self._next += 1
        number = self._next
        self._listeners[number] = (process, callback)
        return lambda: self._forget(number)

    def wake_the_dead(self, expired: list[ExecutionRow]) -> None:
        """The worst moment to come back: when a janitor has just found one's leases run out."""
        for row in expired:
            owner = self.ledger.processes.get(row.owner or "")
            if owner is not None and owner.paused and self.faults.worst_moment():
                self.judge.count("returns at the worst moment")
                owner.resume()

    def _forget(self, number: int) -> None:
        self._listeners.pop(number, None)

    def _tell(self, topic: Topic) -> None:
        """Wake-ups are hints: they come late, or not at all."""
        for number, (process, _) in list(self._listeners.items()):
            if not process.alive:
                self._forget(number)
            elif (delay := self.faults.wake_up_delay()) is None:
                self.judge.count("wake-ups lost")
            else:
                asyncio.get_running_loop().call_later(delay, self._deliver, number, topic)

    def _deliver(self, number: int, topic: Topic) -> None:
        process, callback = self._listeners.get(number, (None, None))
        if process is not None and callback is not None and process.alive and not process.paused:
            callback(topic)


class FaultyStore:
    """The `Store` of one process. Use `as_store` where the type matters."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network, self._process = network, process

    @property
    def as_store(self) -> Store:
        return cast(Store, self)

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        return self._network.listen(self._process, callback)

    async def send(self, beat: HeartbeatRequest) -> HeartbeatReply:
        """A heartbeat, for `HeartbeatTask`."""

        async def beat_now() -> HeartbeatReply:
            return self._network.store.heartbeat(beat)

        reply: HeartbeatReply = await self._call("heartbeat", beat_now, (beat,), {})
        return reply

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Any other primitive, found once."""
        primitive = getattr(self._network.store, name)

        async def call(*args: Any, **options: Any) -> Any:
            return await self._call(name, lambda: primitive(*args, **options), args, options)

        setattr(self, name, call)
        return call

    async def _call(self, name: str, apply: Callable[[], Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        await self._under_way(name, "before")
        reply = await apply()  # one atomic step: the memory store never waits
        self._network.ledger.observe(self._process, name, args, options, reply)
        if name == "expired":
            self._network.wake_the_dead(reply)
        await self._under_way(name, "after")
        if name == "exchange":
            self._process.delivered.update((row.id, row.token) for row in reply.claimed)
        return reply

    async def _under_way(self, name: str, when: str) -> None:
        faults, process = self._network.faults, self._process
        if delay := faults.delay(LONGEST_BEAT if name == "heartbeat" else LONGEST_CALL):
            await asyncio.sleep(delay)
        await process.running()
        fault = Fault.ERROR if process.cut_off else faults.draw()
        if fault is None:
            return
        self._network.judge.note(process.name, f"{fault.value} {when} {name}")
        match fault:
            case Fault.CRASH:
                self._network.judge.count("crashes")
                process.kill()
            case Fault.PAUSE:
                self._network.judge.count("pauses")
                process.pause(faults.pause_length(self._network.lease))
            case Fault.ERROR:
                self._network.judge.count("transient errors" if when == "before" else "lost replies")
                if name == "heartbeat":
                    process.troubled()
                raise StoreError(f"simulated: the connection was cut {when} {name}")
        await process.running()
