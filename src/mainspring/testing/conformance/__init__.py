"""One suite for every store: plug a store in, and it is finished when it passes.

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

from .adding import Adding, OverlapKeys, UniqueKeys
from .base import StoreSuite
from .cancelling import Cancelling, StoppedJobs
from .claiming import Claiming, ClaimOrder, FutureWork, RunningAlone
from .content import Content
from .copying import MovingHouse
from .equivalence import Equivalence
from .fencing import Fencing, Heartbeats, Notes, Rescue
from .housekeeping import AuditTrail, Retention, Workers
from .job_finding import JobFinding
from .jobs import JobDeletion, JobReading, JobWrites
from .limits import ConcurrencyLimits, RateLimits
from .lines import ParkedLines
from .locks import Locks, StoreLocks
from .queries import Children, Finding
from .settling import KeptOrNot, Settling
from .shares import Shares
from .shelf import ShelfReading, ShelfWrites
from .staging import FreedKeys, Staging
from .statistics import LiveCounting, Numbers, Statistics
from .wakeups import WakeUps

__all__ = ["StoreConformance", "StoreSuite"]


class StoreConformance(
    JobWrites,
    JobReading,
    JobDeletion,
    JobFinding,
    Adding,
    UniqueKeys,
    OverlapKeys,
    Staging,
    FreedKeys,
    Claiming,
    ClaimOrder,
    FutureWork,
    RunningAlone,
    Shares,
    ConcurrencyLimits,
    RateLimits,
    ParkedLines,
    Settling,
    KeptOrNot,
    Fencing,
    Rescue,
    Heartbeats,
    Notes,
    Cancelling,
    StoppedJobs,
    Finding,
    Children,
    Statistics,
    LiveCounting,
    Numbers,
    Retention,
    Workers,
    AuditTrail,
    Locks,
    StoreLocks,
    ShelfWrites,
    ShelfReading,
    Content,
    WakeUps,
    MovingHouse,
    Equivalence,
):
    """Every sentence of the `Store` port, as a test."""
