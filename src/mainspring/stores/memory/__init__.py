"""The memory store: everything in dictionaries, gone with the process. For tests, simulation and trying things out.

executions.py  live and finished rows together: adding, changing, reading, forgetting
live.py sorted_queue.py         rows that have not ended: lanes, due times, keys
shares.py limits.py             turns between shares; slots, tokens and what is parked for them
history.py     rows that have, their log lines, what retention deletes
statistics.py  totals by job, deltas not folded yet, execution numbers
jobs.py locks.py wakeups.py     one table each
store.py       the Store itself: every primitive under one lock
"""

from __future__ import annotations

from .store import MemoryStore

__all__ = ["MemoryStore"]
