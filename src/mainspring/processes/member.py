"""One child process as its worker sees it: its channel, its life and its end."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from ..core.ports import StopKind
from ..model.time.instants import SECOND
from .frames import (
    CHUNK,
    BrokenChannel,
    Cancel,
    FromChild,
    Leave,
    Ready,
    Refused,
    Report,
    Result,
    Setup,
    Start,
    ToChild,
    encode,
    from_child,
)
from .rules import BROKEN_CHANNEL, CHANNEL_CLOSED, STOPPED, Killed, of_the_handler

REAP_FIRST, REAP_LONGEST = 0.002, 0.1
CLOSED_GRACE = 0.5
"""Seconds that a child may live on after it has closed its channel."""
LEAVE_GRACE = 2.0
STACK_LIMIT = 32_768


class Owner(Protocol):
    """What a child reports to: its pool."""

    def on_ready(self, member: Member) -> None: ...
    def on_refused(self, member: Member, message: Refused) -> None: ...
    def on_report(self, member: Member, report: Report) -> None: ...
    def on_result(self, member: Member, result: Result) -> None: ...
    def on_gone(self, member: Member, code: int | None, cpu: float | None) -> None: ...


class Member:
    """Started by its constructor, in the thread of the event loop: the child ends with the thread that started it."""

    def __init__(self, owner: Owner, command: Sequence[str], setup: Setup, term_grace: float) -> None:
        self._owner, self._term_grace = owner, term_grace
        self._loop = asyncio.get_running_loop()
        self._stack = _unnamed_file()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                descriptors = [theirs.fileno(), self._stack.fileno()]
                self._popen = subprocess.Popen(
                    [*command, *map(str, descriptors), str(os.getpid())],
                    pass_fds=descriptors,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                self._stack.close()
                raise
        self.pid = self._popen.pid
        self._channel: socket.socket | None = ours
        self._decoder = from_child()
        self._unsent = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._reaping = False
        self._closed_at: float | None = None
        self.killed: Killed | None = None
        self.since = self._loop.time()
        self.executions = 0
        self.ready = False
        self.size: int | None = None
        """Bytes that it held after its last attempt."""
        self._first_size: int | None = None
        self.stack: str | None = None
        """Of the handler, when a signal ended its process or was to stop it."""
        # of the attempt that runs; the watch reads them
        self.number = 0
        self.max_memory: int | None = None
        self.max_cpu: float | None = None
        self.cpu_before = 0.0
        self.peak: int | None = None
        ours.setblocking(False)
        self._loop.add_reader(ours, self._readable)
        self.send(setup)

    # --- the channel --------------------------------------------------------------------------------------
    def send(self, message: ToChild) -> None:
        data: bytes | memoryview = encode(message)
        channel = self._channel
        if channel is None:
            return
        if not self._unsent:
            try:
                data = memoryview(data)[channel.send(data) :]
            except BlockingIOError:
                pass
            except OSError:
                return  # it has ended: the end of the channel says so
        if data:
            if not self._unsent:
                self._loop.add_writer(channel, self._writable)
            self._unsent += data

    def _writable(self) -> None:
        channel = self._channel
        assert channel is not None
        try:
            del self._unsent[: channel.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
        if not self._unsent:
            self._loop.remove_writer(channel)

    def _readable(self) -> None:
        if not self._read():
            self._close_channel()
            self._reap()

    def _read(self) -> bool:
        """Take what has arrived; False at the end of the channel."""
        channel = self._channel
        if channel is None:
            return False
        try:
            data = channel.recv(CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        try:
            for message in self._decoder.feed(data):
                self._receive(message)
        except BrokenChannel as error:
            self.kill(Killed(BROKEN_CHANNEL, f"the handler has written to the channel of its process: {error}"))
        return bool(data)

    def _receive(self, message: FromChild) -> None:
        match message:
            case Report():
                self._owner.on_report(self, message)
            case Result():
                self.executions += 1
                self._cancel_timer()
                self._note(message.report)
                self._owner.on_result(self, message)
            case Ready():
                self._cancel_timer()
                self.ready, self.cpu_before = True, message.cpu
                self.size = self._first_size = message.size
                self._owner.on_ready(self)
            case Refused():
                self._owner.on_refused(self, message)

    def _note(self, report: Report) -> None:
        self.number, self.max_memory, self.max_cpu = 0, None, None
        self.cpu_before, self.size = report.cpu, report.size

    def _close_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            self._loop.remove_reader(channel)
            self._loop.remove_writer(channel)
            channel.close()
            self._closed_at = self._loop.time()

    @property
    def growth(self) -> int:
        """Bytes that it holds more than when it was new."""
        return 0 if self.size is None or self._first_size is None else self.size - self._first_size

    # --- attempts -----------------------------------------------------------------------------------------
    def begin(self, start: Start) -> None:
        rules = start.execution.rules
        self.number, self.peak = start.number, None
        self.max_memory, self.max_cpu = rules.max_memory, rules.max_cpu
        if self._stack.tell():  # a signal has reached another handler, which went on
            self._stack.seek(0)
            self._stack.truncate()
        self.send(start)

    def stop(self, kind: StopKind, reason: str, graces: tuple[float, float]) -> None:
        """Ask, then send SIGTERM, then SIGKILL."""
        self.send(Cancel(self.number, kind, reason))
        self._set_timer(graces[0], self._terminate, graces[1])

    def _terminate(self, grace: float) -> None:
        self._signal(signal.SIGTERM)
        self._set_timer(grace, self.kill, STOPPED)

    def over_memory(self, number: int, why: Killed) -> None:
        if number == self.number:
            self.kill(why)

    def over_cpu(self, number: int, why: Killed) -> None:
        """The handler gets an exception first. If it was asked to stop before, that goes on."""
        if number == self.number and self._timer is None:
            self._signal(signal.SIGXCPU)
            self._set_timer(self._term_grace, self.kill, why)

    # --- the end ------------------------------------------------------------------------------------------
    def leave(self) -> None:
        """Let it end by itself; nothing is running."""
        self.send(Leave())
        self._set_timer(LEAVE_GRACE, self.kill)

    def kill(self, why: Killed | None = None) -> None:
        """With everything that its handler has started, as long as that has not left its process group."""
        self.killed = self.killed or why
        if self._popen.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self._loop.call_soon(self.on_exit)

    def has_exited(self) -> bool:
        """Its number is not free for others before `_wait`."""
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # the application waits for children of its own, and got this one
            return True
        return found is not None

    def on_exit(self) -> None:
        """It has ended, or is about to: take what it has sent before, and its exit code."""
        self._reap()

    def _reap(self, pause: float = REAP_FIRST) -> None:
        if self._reaping and pause == REAP_FIRST:
            return
        self._reaping = True
        if not self.has_exited():
            if self._closed_at is not None and self._loop.time() - self._closed_at > CLOSED_GRACE:
                self._closed_at = None
                self.kill(CHANNEL_CLOSED)
            self._loop.call_later(pause, self._reap, min(pause * 2, REAP_LONGEST))
            return
        while self._channel is not None and self._more_to_read():
            pass
        self._close_channel()
        self._cancel_timer()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # what its handler has started; before the group's number is free
        code, cpu = self._wait()
        self._popen.returncode = 0 if code is None else code
        self._read_stack()
        self._owner.on_gone(self, code, cpu)

    def _more_to_read(self) -> bool:
        assert self._channel is not None
        try:
            more = bool(self._channel.recv(1, socket.MSG_PEEK))
        except OSError:
            return False
        return more and self._read()

    def _wait(self) -> tuple[int | None, float | None]:
        """The exit code, and the processor time of its whole life."""
        try:
            _, status, usage = os.wait4(self.pid, 0)
        except ChildProcessError:
            return None, None
        return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime

    def _read_stack(self) -> None:
        with self._stack, suppress(OSError):
            self._stack.seek(0)
            text = self._stack.read(STACK_LIMIT) or b""
            self.stack = of_the_handler(text.decode("utf-8", "replace")) or None

    def _signal(self, number: signal.Signals) -> None:
        if self._popen.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)

    def _set_timer(self, delay: float, function: object, *arguments: object) -> None:
        self._cancel_timer()
        self._timer = self._loop.call_later(delay, function, *arguments)  # type: ignore[arg-type]

    def set_start_limit(self, seconds: float) -> None:
        why = Killed("error", f"it has not imported the application within {seconds:g} s")
        self._set_timer(seconds, self.kill, why)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _unnamed_file() -> io.FileIO:
    """In memory where the system has that: containers may have no folder that can be written to."""
    if sys.platform == "linux":
        return io.FileIO(os.memfd_create("mainspring-stack"), "r+")
    with tempfile.TemporaryFile(buffering=0) as file:
        return io.FileIO(os.dup(file.fileno()), "r+")


def emit_records(report: Report, pid: int) -> None:
    """Hand the child's records to the handlers of this process, where a logger lets them through."""
    for forwarded in report.records:
        logger = logging.getLogger(forwarded.name)
        if logger.isEnabledFor(forwarded.level):
            with suppress(Exception):  # a filter of the application must not cost an attempt its ending
                logger.handle(forwarded.record(pid))


def offset_of(now: int, monotonic: float) -> int:
    """The time at 0 of the monotonic clock."""
    return now - round(monotonic * SECOND)
