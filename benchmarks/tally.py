"""Who ran how many jobs, and when the first and the last one started: counted in memory that processes share.

A handler calls `hit`, the harness reads. Each thread of each process has a slot of its own, so nobody waits for others,
and a hit costs a fifth of a microsecond. Times are `time.monotonic`, which all processes of one machine share.
This file is imported by every contestant, in its own virtual environment: it needs the standard library alone.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
import threading
import time
from pathlib import Path

SLOTS = 512
GO, READY, TAKEN = 0, 1, 2  # cells of the header
HEADER, WIDTH = 4, 4
COUNT, FIRST, LAST, PROCESS = 0, 1, 2, 3  # cells of a slot
SIZE = (HEADER + SLOTS * WIDTH) * 8


class Tally:
    def __init__(self, path: str | Path) -> None:
        self._file = open(path, "r+b")  # noqa: SIM115  # open as long as the process counts
        self._memory = mmap.mmap(self._file.fileno(), SIZE)
        self._cells = memoryview(self._memory).cast("d")
        self._own = threading.local()
        os.register_at_fork(after_in_child=self._forget_slots)

    @classmethod
    def create(cls, path: str | Path) -> Tally:
        Path(path).write_bytes(bytes(SIZE))
        return cls(path)

    # --- the contestant's side ----------------------------------------------------------------------------------
    def hit(self) -> None:
        """One job has started."""
        now = time.monotonic()
        cells = self._cells
        try:
            slot = self._own.slot
        except AttributeError:
            slot = self._own.slot = self._take_slot()
            cells[slot + FIRST] = now
        cells[slot + LAST] = now
        cells[slot + COUNT] += 1

    def ready_and_wait(self) -> None:
        """All is imported; connecting and working begin when the harness says so."""
        with self._locked():
            self._cells[READY] += 1
        while not self._cells[GO]:
            time.sleep(0.001)

    def linger(self) -> None:
        """Nothing is left, but a worker ends when it is told to, so that its CPU time can still be read."""
        signal.pause()

    def _take_slot(self) -> int:
        with self._locked():
            taken = int(self._cells[TAKEN])
            if taken >= SLOTS:
                raise RuntimeError(f"more than {SLOTS} threads count")
            self._cells[TAKEN] = taken + 1
        slot = HEADER + taken * WIDTH
        self._cells[slot + PROCESS] = os.getpid()
        return slot

    def _forget_slots(self) -> None:
        self._own = threading.local()

    def _locked(self) -> _Locked:
        return _Locked(self._file.fileno())

    # --- the harness's side -------------------------------------------------------------------------------------
    def go(self) -> None:
        self._cells[GO] = time.monotonic()

    @property
    def started(self) -> float:
        return self._cells[GO]

    @property
    def ready(self) -> int:
        return int(self._cells[READY])

    @property
    def count(self) -> int:
        return sum(int(self._cells[slot + COUNT]) for slot in self._slots())

    @property
    def first(self) -> float:
        return min((self._cells[slot + FIRST] for slot in self._slots()), default=0.0)

    @property
    def last(self) -> float:
        return max((self._cells[slot + LAST] for slot in self._slots()), default=0.0)

    def _slots(self) -> range:
        return range(HEADER, HEADER + int(self._cells[TAKEN]) * WIDTH, WIDTH)

    def close(self) -> None:
        self._cells.release()
        self._memory.close()
        self._file.close()


class _Locked:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
