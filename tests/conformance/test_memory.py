"""The memory store passes the conformance suite."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mainspring.core.ports import Clock, Store, Topic
from mainspring.model.execution import ExecutionRow
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.conformance import StoreConformance


class TestMemory(StoreConformance):
    @asynccontextmanager
    async def open_store(self, clock: Clock) -> AsyncIterator[Store]:
        yield MemoryStore(clock)

    @asynccontextmanager
    async def second_store(self, store: Store, clock: Clock) -> AsyncIterator[Store]:
        yield store  # nodes in one process share the object


def added(store: MemoryStore, id: str) -> None:
    asyncio.run(store.add([ExecutionRow(id=id, job="job", job_id="job-1", handler="work")]))


async def test_a_listener_is_called_on_its_own_loop_whichever_thread_made_the_change() -> None:
    store, heard = MemoryStore(FakeClock()), asyncio.Event()
    threads: list[int] = []

    def hear(topic: Topic) -> None:
        threads.append(threading.get_ident())
        heard.set()

    stop = store.listen(hear)
    await asyncio.to_thread(added, store, "a")
    await asyncio.wait_for(heard.wait(), 60)
    stop()
    assert set(threads) == {threading.get_ident()}


def test_a_listener_whose_loop_is_gone_is_forgotten() -> None:
    store = MemoryStore(FakeClock())
    heard: list[Topic] = []

    async def listen() -> None:
        store.listen(heard.append)

    asyncio.run(listen())
    added(store, "a")
    added(store, "b")
    assert heard == []
