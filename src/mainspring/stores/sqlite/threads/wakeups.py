"""Wake-ups between the processes that share a database file.

Each process that listens has a FIFO in a folder beside the database; a process that has committed something writes a
byte to the FIFOs of the others. A wake-up is only a hint to look at `data_version`. That is also polled, which covers
what no wake-up announces: commits of a caller's own connection, and systems without FIFOs.

A FIFO without a reader was left behind by a killed process; the next process that sees it removes it.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress

SHORTEST, LONGEST = 0.01, 0.05  # seconds between two wake-ups

_inherited: set[int] = set()  # descriptors that a forked child has to close: they are readers of its parent's FIFOs


class Pace:
    """Says when to do what is asked for: the first time at once, soon after that a little later, and ever later up to
    a limit while it is asked for all the time."""

    def __init__(self) -> None:
        self.asked = False
        self._not_before, self._gap, self._put_off = 0.0, SHORTEST, False

    def ask(self) -> None:
        self._put_off = self._put_off or time.monotonic() < self._not_before
        self.asked = True

    @property
    def wait(self) -> float:
        """Seconds until it is due."""
        return max(0.0, self._not_before - time.monotonic())

    def due(self) -> bool:
        """Whether to do it now; the caller does."""
        if not self.asked or self.wait:
            return False
        self._gap = min(self._gap * 2, LONGEST) if self._put_off else SHORTEST
        self._not_before, self.asked, self._put_off = time.monotonic() + self._gap, False, False
        return True


class Wakeups:
    """Used by one thread, except for `heard`, which a thread of its own calls."""

    def __init__(self, path: str, heard: Callable[[], None]) -> None:
        self._path, self._folder, self._heard = path, f"{path}-wake", heard
        self._own: str | None = None  # the name of our FIFO
        self._reader: int | None = None
        self._closed = False

    def listen(self) -> None:
        """Call `heard` for every wake-up from now on. If there can be no FIFO, nothing happens."""
        if self._own is None and hasattr(os, "mkfifo"):
            self._own = secrets.token_hex(8)
            with suppress(OSError):
                self._reader = self._opened(self._own)
                _inherited.add(self._reader)
                threading.Thread(
                    target=self._read, args=(self._reader,), name="mainspring-wakeups", daemon=True
                ).start()

    def send(self) -> None:
        """Wake all other processes that listen."""
        try:
            names = os.listdir(self._folder)
        except OSError:  # nobody listens
            return
        for name in names:
            if name != self._own and not name.startswith("."):
                _poke(os.path.join(self._folder, name))

    def close(self) -> None:
        """Leaves nothing behind, unless others listen."""
        if self._reader is not None and self._own is not None:
            self._closed = True
            with suppress(OSError):
                os.write(self._reader, b"\n")
            with suppress(OSError):
                os.unlink(os.path.join(self._folder, self._own))
            with suppress(OSError):
                os.rmdir(self._folder)

    def _opened(self, name: str) -> int:
        """The FIFO gets its name when it has a reader: before that, others would take it for one that was left."""
        mode = stat.S_IMODE(os.stat(self._path).st_mode)  # who may use the database may wake us
        hidden, final = (os.path.join(self._folder, each) for each in (f".{name}", name))
        for _ in range(3):
            with suppress(FileExistsError):
                os.mkdir(self._folder)
                os.chmod(self._folder, mode | (mode & 0o444) >> 2)
            try:
                os.mkfifo(hidden)
                break
            except FileNotFoundError:  # a process that stopped listening has just removed the folder
                continue
        os.chmod(hidden, mode & 0o666)
        reader = os.open(hidden, os.O_RDWR | os.O_CLOEXEC)  # being a writer too, it never comes to the end of the file
        os.rename(hidden, final)
        return reader

    def _read(self, reader: int) -> None:
        while True:
            os.read(reader, 4096)
            if self._closed:
                break
            self._heard()
        _inherited.discard(reader)
        os.close(reader)


def _poke(path: str) -> None:
    try:
        writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # no reader
            with suppress(OSError):
                os.unlink(path)
        return
    with suppress(OSError):  # full: it has not read the last wake-ups yet
        os.write(writer, b"\n")
    os.close(writer)


def _after_in_child() -> None:
    for reader in _inherited:
        with suppress(OSError):
            os.close(reader)
    _inherited.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)
