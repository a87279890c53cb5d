"""Wake-ups between processes on one file: at once by a FIFO beside it, and by polling where there is none."""

from __future__ import annotations

import asyncio
import itertools
import os
import stat
import threading
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.threads import wakeups
from tests.integration.stores.sqlite_support import CHILD, execution, opened, output, start
from tests.support import DEADLINE, new_threads, until

NEVER = 3_600.0  # seconds between two polls

pytestmark = pytest.mark.req("WRK-1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def listening(store: SqliteStore) -> asyncio.Event:
    """Set by every wake-up. The first one, which says that all may have changed before, is over."""
    heard = asyncio.Event()
    store.listen(lambda topic: heard.set())
    return heard


async def woken(heard: asyncio.Event) -> None:
    await asyncio.wait_for(heard.wait(), DEADLINE)
    heard.clear()


async def ready(path: Path, *all_heard: asyncio.Event) -> None:
    """Until all listen, and have heard whatever happened before."""
    folder = Path(f"{path}-wake")
    await until(lambda: folder.is_dir() and len(visible(folder)) == len(all_heard))
    for heard in all_heard:
        await woken(heard)


def visible(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if not name.startswith(".")]


async def test_all_who_listen_hear_of_another_process_at_once(path: Path) -> None:
    """Without polling: the child process commits, and both stores here are woken."""
    async with opened(path, watch_interval=NEVER) as one, opened(path, watch_interval=NEVER) as other:
        both = listening(one), listening(other)
        await ready(path, *both)
        child = start(CHILD, path, 1, 1)
        for heard in both:
            await woken(heard)
        await asyncio.to_thread(output, child)


async def test_nothing_is_left_behind_and_only_those_who_may_use_the_database_may_wake(path: Path) -> None:
    folder, threads = Path(f"{path}-wake"), set(threading.enumerate())
    async with opened(path, watch_interval=NEVER) as store:
        assert folder.name not in os.listdir(path.parent)  # nobody listens yet
        await ready(path, listening(store))
        [name] = visible(folder)
        modes = [stat.S_IMODE(each.stat().st_mode) for each in (folder, folder / name)]
        assert modes == [0o700, 0o600]
    assert folder.name not in os.listdir(path.parent)
    await until(lambda: new_threads(threads) == [])


async def test_the_fifo_of_a_process_that_was_killed_is_removed(path: Path) -> None:
    async with opened(path, watch_interval=NEVER) as store, opened(path, watch_interval=NEVER) as producer:
        heard = listening(store)
        await ready(path, heard)
        left = Path(f"{path}-wake") / "left"
        os.mkfifo(left)
        await producer.add([execution(1)])
        await woken(heard)
        await until(lambda: not left.exists())


async def test_without_a_fifo_polling_finds_it(path: Path) -> None:
    os.close(os.open(f"{path}-wake", os.O_CREAT))  # a file where the folder should be
    async with opened(path, watch_interval=0.01) as store, opened(path) as producer:
        heard = listening(store)
        await woken(heard)
        await producer.add([execution(1)])
        await woken(heard)


async def test_a_full_fifo_and_one_who_does_not_read_hold_nobody_up(path: Path) -> None:
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(opened(path, watch_interval=NEVER))
        producer = await stack.enter_async_context(opened(path, watch_interval=NEVER))
        heard = listening(store)
        await ready(path, heard)
        deaf = Path(f"{path}-wake") / "deaf"
        os.mkfifo(deaf)
        reader = os.open(deaf, os.O_RDWR | os.O_NONBLOCK)
        stack.callback(os.close, reader)
        with suppress(BlockingIOError):
            while True:
                os.write(reader, b"x" * 4096)
        await producer.add([execution(1)])
        await woken(heard)
        stack.callback(deaf.unlink)


def test_a_steady_stream_is_put_off_ever_longer_and_what_comes_alone_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now, done = 100.0, list[float]()
    monkeypatch.setattr(wakeups.time, "monotonic", lambda: now)
    pace = wakeups.Pace()
    for step in range(200):  # asked for every millisecond
        now = 100 + step / 1000
        pace.ask()
        if pace.due():
            done.append(step)
    gaps = [later - earlier for earlier, later in itertools.pairwise(done)]
    assert gaps == pytest.approx([10, 20, 40, 50, 50], abs=1)
    for _ in range(2):
        now += 1
        pace.ask()
        assert pace.due()
    now += 0.011
    pace.ask()
    assert pace.due()
    pace.ask()
    assert not pace.due()
    assert pace.wait == pytest.approx(0.01)
