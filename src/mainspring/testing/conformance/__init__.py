"""One suite for every store. A new store is finished when it passes:

    class TestMemory(StoreConformance):
        @asynccontextmanager
        async def open_store(self, clock):
            yield MemoryStore(clock)

        @asynccontextmanager
        async def second_store(self, store, clock):
            yield store

Tests are coroutine methods; the project's conftest runs them. Time is a FakeClock: nothing sleeps.
"""

from __future__ import annotations

from .base import StoreSuite
from .cancelling import Cancelling, StoppedJobs
from .claiming import Claiming, ClaimOrder, ExclusiveExecutions, FutureWork
from .content import Content
from .copying import Copying
from .entries import ReadingEntries, WritingEntries
from .equivalence import Equivalence
from .execution_lists import Children, ExecutionLists
from .fencing import Fencing, Heartbeats, ProgressReports, Rescue
from .housekeeping import AuditTrail, Retention, Workers
from .insert import Inserts, OverlapKeys, UniqueKeys
from .job_lists import JobLists
from .jobs import JobDeletion, JobReads, JobWrites
from .limits import ConcurrencyLimits, RateLimits
from .locks import Locks, StoreLocks
from .settling import KeepingFinished, Settling
from .shares import Shares
from .staging import FreedKeys, Staging
from .statistics import LiveCounting, Numbers, Statistics
from .wait_lines import WaitLines
from .wakeups import WakeUps

__all__ = ["StoreConformance", "StoreSuite"]


class StoreConformance(
    JobWrites,
    JobReads,
    JobDeletion,
    JobLists,
    Inserts,
    UniqueKeys,
    OverlapKeys,
    Staging,
    FreedKeys,
    Claiming,
    ClaimOrder,
    FutureWork,
    ExclusiveExecutions,
    Shares,
    ConcurrencyLimits,
    RateLimits,
    WaitLines,
    Settling,
    KeepingFinished,
    Fencing,
    Rescue,
    Heartbeats,
    ProgressReports,
    Cancelling,
    StoppedJobs,
    ExecutionLists,
    Children,
    Statistics,
    LiveCounting,
    Numbers,
    Retention,
    Workers,
    AuditTrail,
    Locks,
    StoreLocks,
    WritingEntries,
    ReadingEntries,
    Content,
    WakeUps,
    Copying,
    Equivalence,
):
    """What `core.ports.Store` says, as tests."""
