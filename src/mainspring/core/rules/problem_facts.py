"""The facts from which `problems.py` decides what needs attention. `core/monitoring/problems.py` gathers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ...model.backfill import BackfillRow
from ...model.bulk import BulkRow
from ...model.controls import Control
from ...model.execution import ExecutionRow
from ...model.store.messages import WorkerInfo
from ...model.time.instants import Micros


class LateFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A job that should have run: `count` ticks were missed, or with `waiting` so many of its executions wait, the
    oldest of which was due at `first`. `parked` is the limit that one waits for."""

    job: str
    queue: str
    handler: str
    tz: str
    first: Micros
    count: int
    waiting: bool = False
    parked: str | None = None


class ErrorFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An error group that is not muted. `trend` counts failed attempts in each of the last 24 hours, `failures` are
    those after which no attempt was left; jobs are sorted by their failures. Of the failures, `closed` were retried
    since, or are no longer kept. `completed` says that each of its jobs has completed an execution since the last
    failure."""

    id: str
    title: str
    count: int
    failures: int
    first_seen: Micros
    last_seen: Micros
    closed: int = 0
    completed: bool = False
    trend: tuple[int, ...] = ()
    jobs: tuple[str, ...] = ()
    jobs_total: int = 0
    tenants_total: int = 0
    release: str | None = None

    @property
    def open(self) -> int:
        """The failed runs that a retry would run again."""
        return self.failures - self.closed


class Lane(msgspec.Struct, frozen=True):
    """Ready executions of one handler in a queue, the oldest due since `oldest`."""

    handler: str
    ready: int
    oldest: Micros


class QueueFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A queue. `ready` and `oldest` leave out paused handlers; `waiting` counts everything that is ready. `workers` are
    the running processes that serve it, `drained` of them take nothing new; `missing` are lanes whose handler none of
    them has. Rates are per minute."""

    name: str
    ready: int = 0
    waiting: int = 0
    oldest: Micros | None = None
    rate_in: float = 0.0
    rate_out: float = 0.0
    workers: int = 0
    drained: int = 0
    paused: Control | None = None
    missing: tuple[Lane, ...] = ()


class HandlerFacts(msgspec.Struct, frozen=True):
    """A paused handler, for which so many executions are ready."""

    name: str
    waiting: int
    control: Control


class RunFacts(msgspec.Struct, frozen=True):
    """A running execution, and how long the executions of its job take on average, over so many of them."""

    row: ExecutionRow
    average_ms: float | None = None
    runs: int = 0


class WebhookFacts(msgspec.Struct, frozen=True):
    """An endpoint whose deliveries have only failed since then; with `gave_up`, one that was disabled for it then."""

    id: str
    name: str
    since: Micros | None
    reason: str | None = None
    gave_up: bool = False


class LoopFacts(msgspec.Struct, frozen=True):
    """A loop of this process that fails, and for how many seconds."""

    name: str
    seconds: float
    error: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known at one moment. `workers` are all processes, `alive` the ids of those with a recent heartbeat,
    `drains` when each was drained. With `more_late`, more jobs are late than were looked at. `channels`, `skew`,
    `loops` and `disk` (free and total bytes) are those of this process, whose id is `node`."""

    now: Micros
    workers: Sequence[WorkerInfo] = ()
    alive: frozenset[str] = frozenset()
    drains: Mapping[str, Control] = {}
    has_schedules: bool = False
    late: Sequence[LateFacts] = ()
    more_late: bool = False
    errors: Sequence[ErrorFacts] = ()
    queues: Sequence[QueueFacts] = ()
    handlers: Sequence[HandlerFacts] = ()
    runs: Sequence[RunFacts] = ()
    webhooks: Sequence[WebhookFacts] = ()
    bulks: Sequence[BulkRow] = ()
    backfills: Sequence[BackfillRow] = ()
    conflicts: Mapping[str, Sequence[str]] = {}
    node: str | None = None
    channels: Mapping[str, bool] = {}
    skew: float = 0.0
    loops: Sequence[LoopFacts] = ()
    disk: tuple[int, int] | None = None

    @property
    def living(self) -> list[WorkerInfo]:
        return [worker for worker in self.workers if worker.id in self.alive]

    @property
    def schedulers(self) -> int:
        return sum("scheduler" in worker.roles for worker in self.living)
