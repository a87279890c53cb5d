"""CPU time and memory of processes, read from /proc. Elsewhere than on Linux nothing is known, and that is said."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")


def cpu_seconds(pids: Iterable[int]) -> float | None:
    """User and system time of these processes, of their descendants, and of children that have ended already."""
    parents = _parents()
    if parents is None:
        return None
    return sum(_ticks(pid) for pid in family(pids, parents)) / os.sysconf("SC_CLK_TCK")


def memory_mb(pids: Iterable[int]) -> float | None:
    """Resident memory of these processes and their descendants, as `ps` shows it."""
    parents = _parents()
    if parents is None:
        return None
    return sum(_resident(pid) for pid in family(pids, parents)) / 1e6


def family(pids: Iterable[int], parents: dict[int, int]) -> set[int]:
    found = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _parents() -> dict[int, int] | None:
    if not (PROC / "self" / "stat").exists():
        return None
    fields = {int(entry.name): _stat(int(entry.name)) for entry in PROC.iterdir() if entry.name.isdigit()}
    return {pid: int(stat[1]) for pid, stat in fields.items() if stat}


def _stat(pid: int) -> list[str]:
    """The fields after the name of the program, which may hold spaces; none when the process is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _ticks(pid: int) -> int:
    return sum(int(value) for value in _stat(pid)[11:15])


def _resident(pid: int) -> int:
    try:
        return int((PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
