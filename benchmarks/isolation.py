"""What process isolation costs: one run of an empty handler in a thread and in a child process, beside a bare round
trip over a socket pair and `concurrent.futures.ProcessPoolExecutor`: python -m benchmarks.isolation [RUNS]

The four take turns, so that whatever else the machine does hits all of them. The bar is the median of a run in a child
minus that of a run in a thread.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from mainspring import Mainspring
from mainspring.app.adapters import SystemClock, make_processes
from mainspring.core.engine.runner import Run, Runner
from mainspring.core.engine.thread_pool import ThreadPool
from mainspring.model.execution import ExecutionRow, Outcome, encode_policy
from mainspring.model.policies import RunPolicy

BAR_MS = 0.25
RUNS = 2_000
WARM_UP = 50

app = Mainspring("memory://", import_path="benchmarks.isolation:app", isolation_recycle_executions=1_000_000)

ECHO = """
import os, socket
connection = socket.socket(fileno=int(os.sys.argv[1]))
while data := connection.recv(65536):
    connection.sendall(data)
"""


@app.job("nothing")
def nothing() -> None:
    """The work itself: none."""


class Bare:
    """A child that sends back what it gets, over the event loop as the pool does it."""

    def __init__(self, size: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-I", "-S", "-c", ECHO, str(theirs.fileno())]
            self._popen = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        self._ours.setblocking(False)
        self._message = b"x" * size
        self._back: asyncio.Future[None] | None = None
        self._loop.add_reader(self._ours, self._readable)

    async def trip(self) -> None:
        self._back = self._loop.create_future()
        self._ours.send(self._message)
        await self._back

    def _readable(self) -> None:
        self._ours.recv(65_536)
        if self._back is not None:
            self._back.set_result(None)

    def close(self) -> None:
        self._loop.remove_reader(self._ours)
        self._ours.close()
        self._popen.wait()


class Runs:
    """Attempts through the engine's own runner."""

    def __init__(self, runner: Runner, isolation: str) -> None:
        self._runner, self._loop = runner, asyncio.get_running_loop()
        policy = encode_policy(RunPolicy(isolation=isolation))  # type: ignore[arg-type]
        self._row = ExecutionRow(id="x", job="nothing", job_id="x", handler="nothing", policy=policy)

    async def run(self) -> None:
        ended: asyncio.Future[Outcome | None] = self._loop.create_future()

        def done(run: Run, outcome: Outcome | None) -> None:
            ended.set_result(outcome)

        handler = app._runtime.registry.get("nothing")
        self._runner.begin(self._runner.prepare(self._row, handler), done)
        outcome = await ended
        assert outcome is not None
        assert outcome.end == "completed", outcome


async def measure(runs: int) -> dict[str, list[float]]:
    """How long each run took, in milliseconds."""
    clock, threads = SystemClock(), ThreadPool(1)
    make_pool = partial(make_processes, app._runtime.settings, app._runtime.import_path, {}, clock)
    runner = Runner(clock, threads, "bench", processes=make_pool)
    executor = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    bare, loop = Bare(300), asyncio.get_running_loop()
    thread, process = Runs(runner, "thread"), Runs(runner, "process")

    async def in_executor() -> None:
        await loop.run_in_executor(executor, os.getpid)

    ways: dict[str, Callable[[], Awaitable[None]]] = {
        "thread": thread.run,
        "process": process.run,
        "bare round trip": bare.trip,
        "ProcessPoolExecutor": in_executor,
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    try:
        for number in range(runs + WARM_UP):
            for name, way in ways.items():
                began = time.perf_counter()
                await way()
                if number >= WARM_UP:
                    took[name].append((time.perf_counter() - began) * 1000)
    finally:
        await runner.close(patience=2.0)
        threads.close()
        executor.shutdown()
        bare.close()
    return took


def main(runs: int) -> int:
    medians = {name: statistics.median(each) for name, each in asyncio.run(measure(runs)).items()}
    for name, median in medians.items():
        print(f"{name:<20} {median:7.3f} ms   {median / medians['thread']:5.2f} x thread")
    overhead = medians["process"] - medians["thread"]
    print(f"isolation costs      {overhead:7.3f} ms in the median; at most {BAR_MS} ms are allowed")
    return 0 if overhead <= BAR_MS else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS))
