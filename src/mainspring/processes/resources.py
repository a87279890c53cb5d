"""Memory and processor time of processes, from /proc. Where a system has no /proc, nothing is known: None.

What a process holds is its resident set. Memory that it shares with its own children is counted once only in the
proportional set, which takes longer to read: `held` reads it when the quick answer is above a limit.
"""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TypeVar

N = TypeVar("N", int, float)

_PAGE = resource.getpagesize()
_TICKS = os.sysconf("SC_CLK_TCK")
MEGABYTE = 1_000_000


def family(pid: int) -> list[int]:
    """The process and all its descendants."""
    found, waiting = [pid], [pid]
    while waiting:
        new = _children(waiting.pop())
        found += new
        waiting += new
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with suppress(OSError, ValueError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError, ValueError):
                children += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return children


def held(pids: Iterable[int], limit: int | None = None) -> int | None:
    """Bytes that the processes hold together; exact if that is more than the limit."""
    pids = list(pids)
    total = _sum(map(resident, pids))
    if limit is None or total is None or total <= limit or len(pids) == 1:
        return total
    return _sum(map(_proportional, pids)) or total


def resident(pid: int | None = None) -> int | None:
    """Bytes of the resident set of this process, or of another."""
    try:
        return int(_read(f"/proc/{pid or 'self'}/statm").split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None


def _proportional(pid: int) -> int | None:
    with suppress(OSError, ValueError):
        for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return resident(pid)


def cpu_seconds(pids: Iterable[int]) -> float | None:
    """Processor time of these processes, and of those of their children that have ended and were waited for."""
    return _sum(map(_cpu_of, pids))


def _cpu_of(pid: int) -> float | None:
    try:
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS
    except (OSError, ValueError):
        return None


def own_cpu() -> float:
    """Seconds of processor time of this process and of its children that have ended. Every system knows this."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


class Peak:
    """The highest resident set of this process since `begin`. The system keeps the highest of all times, and can be
    asked to begin again; where it cannot, a peak is known only if it is a new highest."""

    def __init__(self) -> None:
        self._before = 0

    def begin(self) -> None:
        try:
            file = os.open("/proc/self/clear_refs", os.O_WRONLY)
            try:
                os.write(file, b"5")
            finally:
                os.close(file)
            self._before = 0
        except OSError:
            self._before = _status()[0] or sys.maxsize

    def read(self) -> tuple[int | None, int | None]:
        """The peak, and what is held now."""
        highest, now = _status()
        return None if highest is None or highest <= self._before else highest, now

    def resident(self) -> int | None:
        return _status()[1]


_STATUS = re.compile(rb"VmHWM:\s*(\d+) kB\nVmRSS:\s*(\d+) kB")


def _status() -> tuple[int | None, int | None]:
    """The highest and the present resident set. Not `ru_maxrss`: that begins with what the parent held when it started
    this process."""
    try:
        file = os.open("/proc/self/status", os.O_RDONLY)
        try:
            found = _STATUS.search(os.read(file, 4096))
        finally:
            os.close(file)
    except OSError:
        return None, None
    return (None, None) if found is None else (int(found[1]) * 1024, int(found[2]) * 1024)


def megabytes(size: int | None) -> float | None:
    return None if size is None else round(size / MEGABYTE, 1)


def _sum(values: Iterable[N | None]) -> N | None:
    """The sum of what is known; None if nothing is. Processes end while they are read."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def _read(path: str) -> str:
    with open(path, "rb", buffering=0) as file:
        return file.read(65_536).decode("ascii", "replace")
