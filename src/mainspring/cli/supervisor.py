"""One parent, several equal processes: `mainspring run --processes N`.

The parent runs no jobs. It forwards stop signals, restarts a crashed process after a growing pause, and kills processes
that have not ended some seconds after `stop_timeout`. If a process crashes again and again, soon after each start, all
are stopped, and the parent exits with an error. Children have their own sessions, so that Ctrl-C reaches them once,
through the parent; each holds a pipe to the parent and drains when the parent is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence

logger = logging.getLogger("mainspring.supervisor")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
STEADY_AFTER = 60.0
"""A process that ran so long is restarted after the first pause, whatever happened before."""
KILL_AFTER = 5.0
MOST_CRASHES = 8
"""In a row, none of them steady: about a minute and a half after the first."""
BAD_INPUT = 2
CRASHED = 1


def supervise(command: Sequence[str], count: int, stop_timeout: float) -> int:
    """Run `count` processes until all have ended; the exit code is the worst of theirs."""
    return asyncio.run(Supervisor(command, count, stop_timeout).run())


class Supervisor:
    def __init__(self, command: Sequence[str], count: int, stop_timeout: float) -> None:
        self._command, self._count, self._stop_timeout = command, count, stop_timeout
        self._running: dict[int, Process] = {}
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        killer = asyncio.create_task(self._kill_late_ones())
        codes = await asyncio.gather(*(self._keep(index) for index in range(self._count)))
        killer.cancel()
        return max(codes)

    async def _keep(self, index: int) -> int:
        """Keep one process running until it ends well or everything stops. A process that cannot start, because of its
        port or its settings, ends all. After the first start such an error may be temporary, such as a database that
        is down."""
        crashes = 0
        while True:
            began = time.monotonic()
            code = await self._run_once(index)
            if code == BAD_INPUT and not crashes and not self._stopping.is_set():
                logger.error("process %d could not start; stopping all", index)
                self._stop()
            if self._stopping.is_set() or code == 0:
                return code if code >= 0 else CRASHED
            crashes = 1 if time.monotonic() - began >= STEADY_AFTER else crashes + 1
            if crashes >= MOST_CRASHES:
                logger.error("process %d ended with code %d, %d times in a row; stopping all", index, code, crashes)
                self._stop()
                return CRASHED
            pause = min(FIRST_PAUSE * 2 ** (crashes - 1), LONGEST_PAUSE)
            logger.error("process %d ended with code %d; starting it again in %g s", index, code, pause)
            if await self._stopped_within(pause):
                return 0

    async def _run_once(self, index: int) -> int:
        arguments = [*self._command, f"--process-index={index}"]
        process = await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, start_new_session=True)
        self._running[index] = process
        logger.info("process %d started with pid %d", index, process.pid)
        if self._stopping.is_set():
            _signal(process, signal.SIGTERM)
        try:
            return await process.wait()
        finally:
            del self._running[index]

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True

    def _stop(self) -> None:
        """Every signal is forwarded: the second one makes the processes stop at once."""
        self._stopping.set()
        for process in self._running.values():
            _signal(process, signal.SIGTERM)

    async def _kill_late_ones(self) -> None:
        await self._stopping.wait()
        await asyncio.sleep(self._stop_timeout + KILL_AFTER)
        for index, process in self._running.items():
            logger.error("process %d did not end in time; killing it", index)
            _signal(process, signal.SIGKILL)


def _signal(process: Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
        process.send_signal(number)


def stop_with_parent() -> None:
    """The supervisor holds the other end of standard input: when it is gone, this process drains and ends."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="mainspring-parent-watch", daemon=True).start()
