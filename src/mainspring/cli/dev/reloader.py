"""The process of `mainspring dev` that watches files and replaces the process that runs the application.

New code is imported by a new process first. If that fails, the process that runs goes on, and the error is shown. If it
works, the old process stops, which hands its running work back, and the new one takes over. Children have sessions of
their own, so that Ctrl-C reaches them once, through this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any

import msgspec
from watchfiles import Change, awatch

from ..root import BAD_INPUT
from ..terminal import echo
from .child import HOST, STOP_TIMEOUT, Report
from .watching import counts, folders_of

KILL_AFTER = STOP_TIMEOUT + 4.0
"""Seconds after the first stop signal."""
QUIET = 200
"""Milliseconds without a further change after which a burst of saves is over."""
LONGEST_REPORT = 1_000_000
"""Bytes."""


class Child:
    """One process of the application: a candidate while it imports, then the one that runs."""

    def __init__(self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.process, self._reader, self._writer = process, reader, writer

    @classmethod
    async def start(cls, command: Sequence[str]) -> Child:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(*command, stdin=theirs.fileno(), start_new_session=True)
        return cls(process, *await asyncio.open_connection(sock=ours, limit=LONGEST_REPORT))

    async def report(self) -> Report:
        with contextlib.suppress(ConnectionError):
            if line := await self._reader.readline():
                return msgspec.json.decode(line, type=Report)
        code = await self.process.wait()
        return Report([], error=f"the process ended with code {code} while it imported the application")

    def run(self, port: int) -> None:
        self._writer.write(b"%d\n" % port)

    def signal(self, number: int = signal.SIGTERM) -> None:
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            self.process.send_signal(number)

    async def stop(self) -> None:
        self.signal()
        try:
            await asyncio.wait_for(self.process.wait(), KILL_AFTER)
        except TimeoutError:
            await self.kill()
        self.close()

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.process.wait()
        self.close()

    def close(self) -> None:
        """Once the process has ended."""
        self._writer.close()


class Reloader:
    """Runs `command` as a child, and again after each save."""

    def __init__(self, command: Sequence[str], target: str, extra: Sequence[str]) -> None:
        self._command, self._target, self._extra = command, target, extra
        self._port: int | None = None
        self._folders: set[str] = {os.getcwd()} | folders_of(extra)
        self._saved, self._stopping, self._new_folders = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._what: list[str] = []
        self._current: Child | None = None
        self._exit_code = 0

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        watching = asyncio.create_task(self._watch())
        self._saved.set()
        while not self._stopping.is_set():
            await _first(self._saved.wait(), self._stopping.wait(), self._ended())
            if self._current is not None and self._current.process.returncode is not None:
                self._report_end(self._current, self._current.process.returncode)
            elif self._saved.is_set() and not self._stopping.is_set():
                await self._reload()
        if self._current is not None:
            await self._current.stop()
        watching.cancel()
        return self._exit_code

    def _stop(self) -> None:
        """The second signal is forwarded: it makes the process stop at once."""
        if self._stopping.is_set() and self._current is not None:
            self._current.signal()
        self._stopping.set()

    async def _ended(self) -> None:
        if self._current is None:
            await asyncio.Event().wait()
        else:
            await self._current.process.wait()

    def _report_end(self, ended: Child, code: int) -> None:
        ended.close()
        self._current = None
        if not self._stopping.is_set():
            say(f"the process ended with code {code}; the next save starts it again", bad=True)

    # --- replacing the process ----------------------------------------------------------------------------
    async def _reload(self) -> None:
        self._saved.clear()
        if self._what:
            say(f"{_some(self._what)} changed; reloading")
            self._what.clear()
        again = ["--again"] if self._current is not None else []
        candidate = await Child.start([*self._command, *again])
        reporting = asyncio.ensure_future(candidate.report())
        await _first(asyncio.shield(reporting), self._saved.wait(), self._stopping.wait())
        if not reporting.done():
            reporting.cancel()
            await candidate.kill()  # newer code is there, or all stops
            return
        report = reporting.result()
        self._watch_also(report.folders)
        if report.mistyped and self._port is None:
            self._refuse(report.error or "")
            await candidate.kill()
        elif report.error is not None:
            self._show(report.error)
            await candidate.kill()  # threads of a half imported application may keep it alive
        elif (port := self._port_to_use(report.port)) is not None:
            await self._hand_over_to(candidate, port)
        else:
            await candidate.kill()

    async def _hand_over_to(self, candidate: Child, port: int) -> None:
        if self._current is not None:
            await self._current.stop()
        if self._stopping.is_set():
            self._current = None
            await candidate.kill()  # it runs nothing yet
        else:
            self._current = candidate
            candidate.run(port)

    def _show(self, error: str) -> None:
        going_on = "the last good code keeps running" if self._current else "waiting for a save that fixes it"
        say(f"{self._target} does not import; {going_on}", bad=True)
        echo("\n".join(f"  {line}" for line in error.splitlines()), err=True)

    def _refuse(self, error: str) -> None:
        """End with what is wrong with the command line."""
        echo(f"error: {error}", err=True)
        self._exit_code = BAD_INPUT
        self._stopping.set()

    def _port_to_use(self, wanted: int) -> int | None:
        """The port of the first start, for good: its address is open in browsers. None if it is taken then."""
        if self._port is None:
            self._port = _free_port(wanted)
        if self._port is None:
            other = f"choose another port: mainspring dev {self._target} --port {wanted + 1}"
            self._refuse(f"port {wanted} of {HOST} is taken; stop what listens there, or {other}")
        return self._port

    # --- watching -----------------------------------------------------------------------------------------
    def _watch_also(self, folders: Iterable[str]) -> None:
        found = self._folders | _existing(folders)
        if found != self._folders:
            self._folders = found
            self._new_folders.set()

    async def _watch(self) -> None:
        try:
            await self._notice_saves()
        except Exception as error:  # such as the limit of the machine for watched folders
            say(f"files can no longer be watched, so a save changes nothing: {error}", bad=True)

    async def _notice_saves(self) -> None:
        while not self._stopping.is_set():
            self._new_folders.clear()
            self._folders = _existing(self._folders)
            watched = awatch(
                *self._folders,
                watch_filter=lambda change, path: counts(path, self._extra),
                step=QUIET,
                recursive=False,
                stop_event=self._new_folders,
            )
            with contextlib.suppress(FileNotFoundError):  # a folder was removed meanwhile: watch the others
                async for changes in watched:
                    self._noticed(changes)

    def _noticed(self, changes: set[tuple[Change, str]]) -> None:
        self._what += sorted(os.path.relpath(path) for _, path in changes)
        self._saved.set()


async def _first(*waits: Awaitable[Any]) -> None:
    """Wait until one of them is done, and end the others."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _free_port(port: int) -> int | None:
    """The port, or a free one for 0; None if it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return None
        return int(probe.getsockname()[1])


def _existing(folders: Iterable[str]) -> set[str]:
    return {each for each in folders if os.path.isdir(each)}


def _some(names: Sequence[str]) -> str:
    first = list(dict.fromkeys(names))
    return ", ".join(first[:3]) + (f" and {len(first) - 3} more" if len(first) > 3 else "")


def say(text: str, bad: bool = False) -> None:
    echo(f"{time.strftime('%H:%M:%S')} {text}", err=True, colour="red" if bad else "cyan")
