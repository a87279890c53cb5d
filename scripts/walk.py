"""Print the way that a flow takes through the code: its files, its function calls and its store round trips.

    python scripts/walk.py                          every flow, on the memory and SQLite stores
    python scripts/walk.py enqueue --store sqlite   one flow on one store
    python scripts/walk.py --database-url URL       on PostgreSQL, or any other database
    python scripts/walk.py --check                  the totals only; the exit code is 1 when a limit is exceeded

The flows are: `enqueue` up to its INSERT, `tick` (one pass of the scheduler with a due job, up to the inserted
execution) and `pause` (a command, up to its audit record). `sys.setprofile` counts in every thread, after the caches of
the process have been filled once, as in a process that has been running for a while. A hop is one call of a function
under src/mainspring; repeated calls of one function by the same caller are folded into one line. A round trip is a call
of the Store port. What happens inside of one is marked with a bar, and its files are counted apart.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import random
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from mainspring import Mainspring, every
from mainspring.core.engine.scheduler import Scheduler
from mainspring.core.ports import Store

SOURCE = Path(__file__).resolve().parent.parent / "src" / "mainspring"
ROUND_TRIPS = [name for name, member in vars(Store).items() if inspect.iscoroutinefunction(member)]
WRITES = frozenset({"add", "write_jobs"})
STATEMENTS = frozenset({"execute", "executemany"})


class Limit(NamedTuple):
    """How many files a flow may pass on its way to the store, and how many calls of the store it may make."""

    files: int
    round_trips: int


LIMITS = {"enqueue": Limit(15, 1), "tick": Limit(20, 2), "pause": Limit(15, 4)}


class Hop(NamedTuple):
    file: str
    function: str
    depth: int
    in_store: bool


class Walk:
    """Records every call until the last statement of the last write to the store."""

    def __init__(self) -> None:
        self.active = False
        self.round_trips: list[str] = []
        self._hops: list[Hop] = []
        self._depths: dict[FrameType, int] = {}
        self._in_store = 0
        self._statement = self._end = 0
        """How many hops there were at the last SQL statement, and at the end of the last write."""

    def profile(self, frame: FrameType, event: str, arg: object) -> None:
        if not self.active or not frame.f_code.co_filename.startswith(str(SOURCE)):
            return
        if event == "call" and frame not in self._depths:  # a coroutine is called again whenever it goes on
            self._called(frame)
        elif event == "c_call" and getattr(arg, "__name__", "") in STATEMENTS:
            self._statement = len(self._hops)

    def _called(self, frame: FrameType) -> None:
        caller = frame.f_back
        while caller is not None and caller not in self._depths:
            caller = caller.f_back
        self._depths[frame] = depth = 0 if caller is None else self._depths[caller] + 1
        file = Path(frame.f_code.co_filename).relative_to(SOURCE).as_posix()
        in_store = self._in_store > 0 or file.startswith("stores/")  # its threads also turn when nobody calls it
        self._hops.append(Hop(file, frame.f_code.co_qualname, depth, in_store))

    def watch(self, store: Any) -> None:
        """Count the calls of the Store port on this store."""
        for name in ROUND_TRIPS:
            setattr(store, name, self._counted(name, getattr(store, name)))

    def _counted(self, name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*args: Any, **options: Any) -> Any:
            if not self.active:
                return await method(*args, **options)
            self.round_trips.append(name)
            self._in_store += 1
            began = self._statement
            try:
                return await method(*args, **options)
            finally:
                self._in_store -= 1
                if name in WRITES:
                    self._end = self._statement if self._statement > began else len(self._hops)
                    self.active = False

        return counted

    @property
    def hops(self) -> list[Hop]:
        return self._hops[: self._end]

    @property
    def files(self) -> set[str]:
        """On the way to the store."""
        return {hop.file for hop in self.hops if not hop.in_store}

    @property
    def store_files(self) -> set[str]:
        return {hop.file for hop in self.hops if hop.in_store} - self.files

    def lines(self) -> list[str]:
        """The walk, indented by the depth of calls, with repeated calls folded."""
        folded: list[tuple[Hop, int]] = []
        for hop in self.hops:
            if folded and folded[-1][0] == hop:
                folded[-1] = (hop, folded[-1][1] + 1)
            else:
                folded.append((hop, 1))
        width = max(len(hop.file) for hop, _ in folded) + 2
        return [
            f"{' |' if hop.in_store else '  '} {hop.file:<{width}}{'  ' * hop.depth}{hop.function}"
            f"{f'  x{times}' if times > 1 else ''}"
            for hop, times in folded
        ]


Flow = Callable[[Mainspring], Awaitable[object]]


async def enqueue(app: Mainspring) -> object:
    return await app.enqueue("work", {"number": 1})


async def tick(app: Mainspring) -> object:
    parts: Any = await app._runtime.engine()
    await asyncio.sleep(0.02)  # the job is due
    scheduler = Scheduler(parts.store, parts.time, random.Random(1), lambda event: None, 10.0)
    return await scheduler.step()


async def pause(app: Mainspring) -> object:
    return await app.pause("report", by="walk")


async def resume(app: Mainspring) -> object:
    return await app.resume("report", by="walk")


FLOWS: dict[str, tuple[Flow, tuple[Flow, ...]]] = {
    "enqueue": (enqueue, (enqueue,)),
    "tick": (tick, (tick,)),
    "pause": (pause, (pause, resume)),
}
"""Each flow, and what is done before it so that caches are filled."""


async def walk(name: str, database: str) -> Walk:
    found = Walk()
    threading.setprofile(found.profile)  # threads of the store start when it is opened
    app = Mainspring(database)
    app.job("work")(_work)
    app.job("report", trigger=every(hours=1))(_report)
    app.job("often", trigger=every(seconds=0.01))(_report)
    flow, before = FLOWS[name]
    await app.open()
    try:
        found.watch((await app._runtime.engine()).store)
        for each in before:
            await each(app)
        await _recorded(found, flow, app)
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]
        await app.close()
    return found


async def _recorded(found: Walk, flow: Flow, app: Mainspring) -> None:
    sys.setprofile(found.profile)
    found.active = True
    try:
        await flow(app)
    finally:
        found.active = False
        sys.setprofile(None)


async def _work(number: int) -> None: ...


async def _report() -> None: ...


def totals(name: str, store: str, found: Walk) -> str:
    trips = found.round_trips
    return (
        f"{name} on {store}: {len(found.hops)} hops; {len(found.files)} files to the store and "
        f"{len(found.store_files)} in it; {len(trips)} round trips ({', '.join(trips)})"
    )


def exceeded(name: str, found: Walk) -> bool:
    limit = LIMITS[name]
    return len(found.files) > limit.files or len(found.round_trips) > limit.round_trips


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Print the way of a flow through the code.")
    parser.add_argument("flow", nargs="?", choices=list(FLOWS), help="default: all of them")
    parser.add_argument("--store", choices=["memory", "sqlite"], help="default: both")
    parser.add_argument("--database-url", help="walk on this database instead")
    parser.add_argument("--check", action="store_true", help="print the totals only")
    given = parser.parse_args(arguments)
    broken = 0
    with tempfile.TemporaryDirectory() as folder:
        stores = {"memory": "memory://", "sqlite": f"sqlite:///{folder}/walk.db"}
        if given.database_url:
            stores = {given.database_url.partition(":")[0]: given.database_url}
        elif given.store:
            stores = {given.store: stores[given.store]}
        for name in [given.flow] if given.flow else FLOWS:
            for store, url in stores.items():
                found = asyncio.run(walk(name, url))
                print(totals(name, store, found))
                if not given.check:
                    print("\n".join(found.lines()))
                if exceeded(name, found):
                    broken += 1
                    print(f"  past its limit of {LIMITS[name].files} files and {LIMITS[name].round_trips} round trips")
    return 1 if broken and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
