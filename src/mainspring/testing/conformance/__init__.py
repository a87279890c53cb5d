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
from .copying import Copying
from .entries import ReadingEntries, WritingEntries
from .equivalence.equivalence import Equivalence
from .executions.cancelling import Cancelling, StoppedJobs
from .executions.claiming import Claiming, ClaimOrder, ExclusiveExecutions, FutureWork
from .executions.content import Content
from .executions.fencing import Fencing, Heartbeats, ProgressReports, Rescue
from .executions.insert import Inserts, OverlapKeys, UniqueKeys
from .executions.labels import FailureNotes, Labels
from .executions.lists import Children, ExecutionLists
from .executions.searching import LaneCounting, NewestRuns, PausedQueues, Searches, TenantCounting
from .executions.settling import KeepingFinished, Settling
from .executions.staging import FreedKeys, Staging
from .housekeeping import AuditTrail, Deletion, Retention, Workers
from .job_lists import JobLabels
from .jobs import JobDeletion, JobReads, JobWrites
from .limits.changed_limits import ChangedLimits
from .limits.limits import ConcurrencyLimits, RateLimits
from .limits.shares import Shares
from .limits.wait_lines import WaitLines
from .locks import Locks, StoreLocks
from .statistics import LiveCounting, Numbers, Snapshots, Statistics
from .wakeups import WakeUps

__all__ = ["StoreConformance", "StoreSuite"]


class StoreConformance(
    JobWrites,
    JobReads,
    JobDeletion,
    JobLabels,
    Inserts,
    UniqueKeys,
    OverlapKeys,
    Staging,
    FreedKeys,
    Claiming,
    ClaimOrder,
    FutureWork,
    ExclusiveExecutions,
    PausedQueues,
    Shares,
    ConcurrencyLimits,
    RateLimits,
    WaitLines,
    ChangedLimits,
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
    Labels,
    FailureNotes,
    Searches,
    LaneCounting,
    TenantCounting,
    NewestRuns,
    Statistics,
    LiveCounting,
    Snapshots,
    Numbers,
    Retention,
    Deletion,
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
