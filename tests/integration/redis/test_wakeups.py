"""Wake-ups through Redis: processes that hear nothing else of each other, and poll once a minute."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mainspring import ConfigurationError, JobContext, Mainspring, every
from mainspring.app.adapters import SystemClock
from mainspring.core.ports import Topic, Unsubscribe
from mainspring.redis import wakeups as redis_wakeups
from mainspring.redis.wakeups import RedisWakeups
from mainspring.stores.memory import MemoryStore
from tests.support import DEADLINE, NEVER, until
from tests.valkey_server import Valkey, new_valkey, valkey


class Deaf(MemoryStore):
    """A store that tells nobody of anything."""

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        return lambda: None


@asynccontextmanager
async def deployment(server: Valkey, prefix: str) -> AsyncIterator[Mainspring]:
    """A process that works, and one that does not, which is what the test gets; both on one store."""
    store = Deaf(SystemClock())
    url = server.url(prefix=prefix, socket_timeout=1, socket_connect_timeout=1)
    options: dict[str, Any] = {"redis_url": url, "redis_wakeups": True, "poll_interval": NEVER, "stop_timeout": 5}
    working, asking = (Mainspring(store, **options) for _ in range(2))
    for app in (working, asking):
        app.job("work")(_work)
        app.job("wait")(_wait)
    await working.start()
    try:
        yield asking
    finally:
        await asking.close()
        await working.close()


async def _work(n: int = 0) -> int:
    return n


async def _wait(ctx: JobContext) -> None:
    await asyncio.Event().wait()


@pytest.mark.req("WRK-2")
async def test_work_jobs_cancels_and_endings_are_heard_elsewhere() -> None:
    async with deployment(valkey(), valkey().new_prefix()) as asking:
        for n in range(3):
            execution = await asking.enqueue("work", {"n": n})
            assert execution is not None
            assert (await asking.wait(execution, DEADLINE)).result == n
        waiting = await asking.enqueue("wait")
        assert waiting is not None
        await until(lambda: _running(asking, waiting.id), "it runs")
        await asking.cancel(waiting)
        assert (await asking.wait(waiting, DEADLINE)).state == "cancelled"
        await asking.update_job("work", by="ada", trigger=every(seconds=0.2))
        await until(lambda: asking.executions("work", trigger="schedule"), "the scheduler has heard of the new trigger")


async def _running(app: Mainspring, id: str) -> bool:
    return (await app.get(id)).state == "running"


@pytest.mark.req("WRK-2")
async def test_hints_are_lost_while_redis_is_away_and_come_again_when_it_is_back() -> None:
    server = new_valkey()
    server.start()
    async with deployment(server, "test") as asking:
        for end, back in ((server.kill, server.start), (server.freeze, server.thaw)):
            end()
            lost = await asking.enqueue("work", {"n": 1})  # nobody hears of it, and nobody waits for Redis
            assert lost is not None
            back()
            heard = [await asking.enqueue("work", {"n": 2})]

            async def ended(heard: list[Any] = heard) -> bool:
                heard.append(await asking.enqueue("work"))
                return (await asking.get(heard[0].id)).state == "completed"

            await until(ended, "work is heard of again")
            assert (await asking.wait(lost, DEADLINE)).state == "completed"
    server.remove()


async def test_a_process_does_not_hear_itself_but_hears_everybody_else() -> None:
    prefix = valkey().new_prefix()
    one, two = (RedisWakeups(valkey().url(prefix=prefix)) for _ in range(2))
    heard: dict[str, list[Topic]] = {"one": [], "two": []}
    stop = one.listen(heard["one"].append)
    two.listen(heard["two"].append)
    await until(lambda: heard["one"] and heard["two"], "both have subscribed")
    one.announce({Topic.WORK, Topic.JOBS})
    one.announce(())
    await until(lambda: set(heard["two"]) == {Topic.ANY, Topic.WORK, Topic.JOBS}, "the other one hears")
    two.announce({Topic.CANCEL})
    await until(lambda: Topic.CANCEL in heard["one"], "and answers")
    assert set(heard["one"]) == {Topic.ANY, Topic.CANCEL}
    stop()
    with valkey().client() as client:
        client.publish(f"{{{prefix}}}:wakeups", "somebody newer")
    await until(lambda: heard["two"].count(Topic.ANY) == 2, "what is not understood may be anything")
    assert heard["one"].count(Topic.ANY) == 1
    await one.close()
    await two.close()


@pytest.mark.req("WRK-2")
async def test_what_was_announced_is_sent_before_it_is_closed() -> None:
    prefix = valkey().new_prefix()
    listener = RedisWakeups(valkey().url(prefix=prefix))
    heard: list[Topic] = []
    listener.listen(heard.append)
    await until(lambda: heard, "it has subscribed")
    for topics in ({Topic.WORK}, {Topic.WORK, Topic.CANCEL}):
        heard.clear()
        leaving = RedisWakeups(valkey().url(prefix=prefix))
        for topic in topics:
            leaving.announce({topic})
        await leaving.close()
        await until(lambda: set(heard) == topics, "its last words are heard")  # noqa: B023
    await listener.close()


async def test_it_can_be_closed_at_any_moment() -> None:
    for moment in range(60):
        wakeups = RedisWakeups(valkey().url())
        wakeups.listen(lambda topic: None)
        wakeups.announce({Topic.WORK})
        for _ in range(moment):
            await asyncio.sleep(0)
        await asyncio.wait_for(wakeups.close(), DEADLINE)


async def test_a_server_that_falls_silent_is_left_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gone, hear = asyncio.Event(), redis_wakeups._Channel._receive_until_silent

    async def watched(line: Any, channel: Any) -> None:
        await hear(line, channel)
        gone.set()

    monkeypatch.setattr(redis_wakeups, "SILENCE", 0.05)
    monkeypatch.setattr(redis_wakeups._Channel, "_receive_until_silent", watched)
    server = new_valkey()
    server.start()
    wakeups = RedisWakeups(server.url(socket_timeout=0.3, socket_connect_timeout=0.3))
    heard: list[Topic] = []
    wakeups.listen(heard.append)
    await until(lambda: heard == [Topic.ANY], "it has subscribed")
    server.freeze()
    await asyncio.wait_for(gone.wait(), DEADLINE)
    server.thaw()
    await until(lambda: len(heard) > 1, "it has subscribed again")
    await wakeups.close()
    server.remove()


@pytest.mark.req("OPS-2")
def test_an_address_is_needed() -> None:
    with pytest.raises(ConfigurationError, match=r"redis_wakeups \(from argument redis_wakeups\) needs redis_url"):
        Mainspring("memory://", redis_wakeups=True)
