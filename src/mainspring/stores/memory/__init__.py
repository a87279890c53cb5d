"""The memory store: everything in dictionaries, gone with the process. For tests, simulation and trying things out.

store.py          the Store itself: every primitive under one lock
executions.py     live and finished rows together: adding, changing, reading, deleting
live.py           rows that have not ended: lanes, due times, keys, turns between shares
limits.py wait_lines.py   slots, tokens, and the rows parked for them
history.py        finished rows, log lines, ids in order
jobs.py job_lists.py      job rows, and lists of them
statistics.py     totals by job, deltas not folded yet, execution numbers
small_tables.py   audit records, entries, locks, workers
"""

from __future__ import annotations

from .store import MemoryStore

__all__ = ["MemoryStore"]
