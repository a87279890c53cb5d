"""Log lines written by their own thread, so that an unread pipe or a full disk does not block a job.

The queue in between is bounded. Lines that do not fit or cannot be written are dropped and counted; the count is logged
as soon as a line gets through again. `flush`, and with it the end of the process, waits a moment, not for ever.
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

CAPACITY = 10_000
"""Lines that may wait: about 3 MB."""
LINGER = 0.02
"""Seconds that a line waits for others to be written with; a warning or worse is written at once."""
LAST_WAIT = 1.0
"""Seconds that the end of a process waits for lines that are not written yet; once."""
WRITE_AT_ONCE = 65_536
BUSY_PAUSE = 0.05


class BackgroundHandler(logging.Handler):
    """Like `logging.StreamHandler`, but it never blocks or raises, and adds the fields of the current execution to
    every record. `stream` is standard error by default."""

    def __init__(self, stream: TextIO | None = None, capacity: int = CAPACITY) -> None:
        super().__init__()
        self.stream = stream or sys.stderr
        self.lines = LineQueue(_writer(self.stream), capacity, self._dropped_line)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            add_execution_fields(record)
            line = self.format(record)
        except Exception:
            self.lines.dropped += 1  # the complaint of `logging` for each of them could be a flood
            return
        self.lines.put(line, record.levelno >= logging.WARNING)

    def createLock(self) -> None:
        """The queue accepts lines from any thread without a lock."""
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool | logging.LogRecord:  # type: ignore[override,unused-ignore]
        """As in the standard library, whose own needs a lock from Python 3.13 on."""
        kept = self.filter(record)
        if kept:
            self.emit(kept if isinstance(kept, logging.LogRecord) else record)
        return kept

    def flush(self) -> None:
        self.lines.flush(LAST_WAIT)

    def close(self) -> None:
        self.lines.close(LAST_WAIT)
        super().close()

    def _dropped_line(self, count: int) -> str:
        fields = {"event": "log_lines_dropped", "dropped": count}
        text = f"log_lines_dropped dropped={count}"
        record = logging.LogRecord("mainspring", logging.WARNING, __file__, 0, text, (), None)
        record.__dict__.update(fields)
        return self.format(record)


class LineQueue:
    """A bounded queue of lines, and the thread that writes them."""

    def __init__(self, write: Callable[[bytes], None], capacity: int, dropped_line: Callable[[int], str]) -> None:
        self._write, self._capacity, self._dropped_line = write, capacity, dropped_line
        self._queue: deque[str] = deque()
        self.dropped = 0
        self._begin()
        begin = weakref.WeakMethod(self._begin)
        os.register_at_fork(after_in_child=lambda: None if (method := begin()) is None else method())

    def _begin(self) -> None:
        """Called again in a forked child: the thread and its lines stayed with the parent."""
        self._queue.clear()
        self._some, self._urgent, self._written = threading.Event(), threading.Event(), threading.Event()
        self._written.set()
        self._closed = self._stuck = self._notified = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def put(self, line: str, urgent: bool = False) -> None:
        if len(self._queue) >= self._capacity:
            self.dropped += 1
            return
        self._queue.append(line)
        if urgent and not self._urgent.is_set():
            self._urgent.set()
        if not self._notified:
            self._notify()

    def _notify(self) -> None:
        self._notified = True
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
            self._notified = False
            self._write_all()
            if not self._queue:
                self._written.set()

    def _write_all(self) -> None:
        while self._queue:
            lines = [self._queue.popleft() for _ in range(min(len(self._queue), 1_000))]
            dropped, self.dropped = self.dropped, 0
            try:
                first = [self._dropped_line(dropped)] if dropped else []
                self._write("\n".join([*first, *lines, ""]).encode("utf-8", "backslashreplace"))
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
    """Bypasses the buffers of the stream: a thread stuck in one of them would block the exit of the process."""
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
            time.sleep(BUSY_PAUSE)  # the stream is non-blocking and full
