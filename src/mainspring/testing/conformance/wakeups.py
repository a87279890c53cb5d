"""Wake-ups: hints that something changed, here or through another handle. They may be late, repeated or needless."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

from ...core.ports import Store, Topic
from ...model.execution import State
from ...model.store.messages import CancelRequest, JobWrite
from .base import StoreSuite, World

PATIENCE = 60.0


class Ear:
    """Collects wake-ups and waits for one about a topic."""

    def __init__(self) -> None:
        self.heard: list[Topic] = []
        self._news = asyncio.Event()

    def __call__(self, topic: Topic) -> None:
        self.heard.append(topic)
        self._news.set()

    async def hears(self, topic: Topic, step: Callable[[], Awaitable[object]]) -> None:
        """The step must be followed by a wake-up about the topic, or one about any topic."""
        self.heard.clear()
        await step()
        await self.has_heard(topic)

    async def has_heard(self, topic: Topic) -> None:
        async with asyncio.timeout(PATIENCE):
            while not {topic, Topic.ANY} & set(self.heard):
                self._news.clear()
                await self._news.wait()


@contextmanager
def listening(store: Store) -> Iterator[Ear]:
    ear = Ear()
    stop = store.listen(ear)
    try:
        yield ear
    finally:
        stop()


class WakeUps(StoreSuite):
    @pytest.mark.req("WRK-2")
    async def test_work_jobs_cancels_and_endings_are_heard(self, world: World) -> None:
        with listening(world.store) as ear:
            await ear.hears(Topic.WORK, lambda: world.add(world.execution()))
            await ear.hears(Topic.JOBS, lambda: world.write(world.job()))
            [row] = await world.claim()
            request = CancelRequest(id=row.id, token=row.token, at=1, reason="r")
            await ear.hears(Topic.CANCEL, lambda: world.store.request_cancel([request]))
            await ear.hears(Topic.WORK, lambda: world.settle(row, State.PENDING))
            [row] = await world.claim()
            await ear.hears(Topic.ENDED, lambda: world.settle(row))
            await ear.hears(Topic.JOBS, lambda: world.store.delete_job("job", 1, purge=False, audit=None))

    @pytest.mark.req("WRK-2", "TIM-5")
    async def test_work_that_a_tick_or_a_future_start_brings_is_heard(self, world: World) -> None:
        tick = JobWrite(job=world.job(), seen_version=None, executions=(world.execution(),))
        with listening(world.store) as ear:
            await ear.hears(Topic.WORK, lambda: world.store.write_jobs([tick]))
            await ear.hears(Topic.WORK, lambda: world.add(world.execution(due=world.after(60))))

    @pytest.mark.req("WRK-2")
    async def test_what_another_handle_does_is_heard(self, world: World) -> None:
        async with world.second() as other:
            with listening(world.store) as ear:
                await ear.hears(Topic.WORK, lambda: other.add([world.execution()]))
                await ear.hears(Topic.JOBS, lambda: other.write_jobs([JobWrite(job=world.job(), seen_version=None)]))

    @pytest.mark.req("WRK-2")
    async def test_what_a_handle_has_not_announced_yet_when_it_is_closed_is_heard(self, world: World) -> None:
        """Stores announce many changes together, a moment later. Closing does not lose them."""
        with listening(world.store) as ear:
            await ear.hears(Topic.JOBS, lambda: world.write(world.job()))
            for _ in range(3):
                row = await world.running()
                async with world.second() as other:
                    await other.add([world.execution(due=world.after(600))])
                    request = CancelRequest(id=row.id, token=row.token, at=1, reason="r")
                    await other.request_cancel([request])
                    ear.heard.clear()
                    await other.exchange([world.change(row)], None)
                await ear.has_heard(Topic.ENDED)

    async def test_several_listeners_hear_it_on_their_loop(self, world: World) -> None:
        loops: list[asyncio.AbstractEventLoop] = []
        stop = world.store.listen(lambda topic: loops.append(asyncio.get_running_loop()))
        with listening(world.store) as first, listening(world.store) as second:
            await first.hears(Topic.WORK, lambda: world.add(world.execution()))
            await second.hears(Topic.WORK, lambda: world.add(world.execution()))
        stop()
        assert set(loops) == {asyncio.get_running_loop()}

    async def test_who_stopped_listening_hears_nothing(self, world: World) -> None:
        deaf = Ear()
        stop = world.store.listen(deaf)
        stop()
        stop()
        with listening(world.store) as ear:
            await ear.hears(Topic.WORK, lambda: world.add(world.execution()))
        assert deaf.heard == []
