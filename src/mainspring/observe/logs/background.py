"""Log lines written by a thread of their own: a pipe that nobody reads, or a full disk, holds up no job.

The queue in between is bounded. What does not fit, and what cannot be written, is dropped and counted; the count is
told as soon as a line gets through again. `flush`, and with it the end of the process, waits a moment, not for ever.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, TextIO

from .context import add_execution_fields
from .formats import ConsoleFormatter, JsonFormatter
from .routine_lines import ConsoleLines, JsonLines, RoutineLines

ROOM = 10_000
"""Lines that may wait: about 3 MB."""
LINGER = 0.02
"""Seconds a line of everyday life waits for others to be written with; a warning or worse waits for nobody."""
LAST_WAIT = 1.0
"""Seconds that the end of a process waits for lines still on their way; once."""
WRITE_AT_ONCE = 65_536
BUSY_PAUSE = 0.05


class BackgroundHandler(logging.Handler):
    """As `logging.StreamHandler`, without ever blocking or raising, and with the fields of the execution that runs on
    every line. `stream` is standard error if none is given."""

    def __init__(self, stream: TextIO | None = None, room: int = ROOM) -> None:
        super().__init__()
        self._routine: RoutineLines | None = None
        self.stream = stream or sys.stderr
        self.lines = Lines(_writer(self.stream), room, self._tell_dropped)

    @property
    def routine(self) -> RoutineLines | None:
        """For the lines of every execution, where they need no record: in a format of ours, and seen by no filter."""
        return self._routine if self.level <= logging.INFO and not self.filters else None

    def setFormatter(self, formatter: logging.Formatter | None) -> None:
        super().setFormatter(formatter)
        self._routine = _routine(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            add_execution_fields(record)
            line = self.format(record)
        except Exception:
            self.lines.dropped += 1  # what logging would print for each of them could be a flood
            return
        self.lines.put(line, record.levelno >= logging.WARNING)

    def createLock(self) -> None:
        """None is needed: a queue takes lines from any thread."""
        self.lock = None

    def flush(self) -> None:
        self.lines.flush(LAST_WAIT)

    def close(self) -> None:
        self.lines.close(LAST_WAIT)
        super().close()

    def _tell_dropped(self, count: int) -> str:
        fields = {"event": "log_lines_dropped", "dropped": count}
        text = f"log_lines_dropped dropped={count}"
        record = logging.LogRecord("mainspring", logging.WARNING, __file__, 0, text, (), None)
        record.__dict__.update(fields)
        return self.format(record)


def _routine(formatter: logging.Formatter | None) -> RoutineLines | None:
    if type(formatter) is JsonFormatter:
        return JsonLines(formatter.process)
    return ConsoleLines(formatter) if type(formatter) is ConsoleFormatter else None


class Lines:
    """A bounded queue of lines, and the thread that writes them."""

    def __init__(self, write: Callable[[bytes], None], room: int, tell_dropped: Callable[[int], str]) -> None:
        self._write, self._room, self._tell_dropped = write, room, tell_dropped
        self._queue: deque[str] = deque()
        self.dropped = 0
        self._begin()
        begin = weakref.WeakMethod(self._begin)
        os.register_at_fork(after_in_child=lambda: None if (method := begin()) is None else method())

    def _begin(self) -> None:
        """Also in a forked child: the thread, and the lines it had, stayed with the parent."""
        self._queue.clear()
        self._some, self._urgent, self._written = threading.Event(), threading.Event(), threading.Event()
        self._written.set()
        self._closed = self._stuck = self._told = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def put(self, line: str, urgent: bool = False) -> None:
        if len(self._queue) >= self._room:
            self.dropped += 1
            return
        self._queue.append(line)
        if urgent and not self._urgent.is_set():
            self._urgent.set()
        if not self._told:
            self._tell()

    def put_all(self, lines: list[str]) -> None:
        """Lines of everyday life."""
        room = self._room - len(self._queue)
        if room < len(lines):
            self.dropped += len(lines) - max(room, 0)
            del lines[max(room, 0) :]
        self._queue.extend(lines)
        if lines and not self._told:
            self._tell()

    def _tell(self) -> None:
        """There is something to write."""
        self._told = True
        self._written.clear()
        self._some.set()
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="mainspring-log", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while not self._closed:
            self._some.wait()
            self._urgent.wait(LINGER)
            self._some.clear()
            self._urgent.clear()
            self._told = False
            self._write_all()
            if not self._queue:
                self._written.set()

    def _write_all(self) -> None:
        while self._queue:
            lines = [self._queue.popleft() for _ in range(min(len(self._queue), 1_000))]
            dropped, self.dropped = self.dropped, 0
            try:
                told = [self._tell_dropped(dropped)] if dropped else []
                self._write("\n".join([*told, *lines, ""]).encode("utf-8", "backslashreplace"))
            except Exception:
                self.dropped += dropped + len(lines)

    def flush(self, timeout: float) -> None:
        self._urgent.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._stuck = not self._written.wait(0.0 if self._stuck else timeout)

    def close(self, timeout: float) -> None:
        self.flush(timeout)
        self._closed = True
        self._some.set()
        self._urgent.set()


def _writer(stream: TextIO) -> Callable[[bytes], None]:
    """Past the buffers of the stream: a thread that hangs in one of those would hang the end of the process too."""
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return lambda data: _write_text(stream, data)
    return lambda data: _write_bytes(descriptor, data)


def _write_text(stream: Any, data: bytes) -> None:
    stream.write(data.decode())
    with contextlib.suppress(AttributeError):
        stream.flush()


def _write_bytes(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view[:WRITE_AT_ONCE]) :]
        except BlockingIOError:
            time.sleep(BUSY_PAUSE)  # somebody has made it non-blocking, and it is full
