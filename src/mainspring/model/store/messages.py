"""What core and a store say to each other: frozen requests and answers, the same for every store.

A store applies a `Change` only if the execution is still in the state the decision was based on (`expect`, `token`,
`owner`), and answers whether it did. The decision itself is made in core.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from ..execution import HELD, PAUSED, STAMP_BITS, AttemptRecord, ExecutionRow, State
from ..job import Job, JobStats, LiveCounts
from ..time.instants import Micros


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """Who changed what. Stored in the same step as the change itself."""

    id: str
    at: Micros
    actor: str
    action: str
    target: str
    before: str | None = None
    after: str | None = None
    request_id: str | None = None


class Change(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A transition of one execution. Built only by `core.rules.transitions`. Stores need not look at `execution`, the
    row that the decision saw.

    `limits` replaces the limits of a row that goes back to `pending` (None: they stay, "[]": none any more). `labels`
    are added to those of the row. `failure` is the JSON note about an attempt that failed: stored in the same step as
    an entry (`entries.failure_entry`), if and only if the change was applied.
    """

    id: str
    expect: State
    token: int
    owner: str | None = None
    to: State
    at: Micros
    failures: int
    crashes: int
    delay: float = 0.0
    alone: bool = False
    started: Micros | None = None
    attempt: AttemptRecord | None = None
    reason: str | None = None
    error: str | None = None
    result_json: str | None = None
    counters_json: str | None = None
    metadata_json: str | None = None
    todo: bool = False
    keep: bool = True
    rescue: bool = False
    limits: str | None = None
    labels: tuple[str, ...] = ()
    failure: str | None = None
    audit: Audit | None = None
    execution: ExecutionRow | None = None


class JobWrite(msgspec.Struct, frozen=True, kw_only=True):
    """Compare-and-set of one job row. `seen_version` None means: only if no such job exists.

    `executions` are inserted in the same step, and only if the write won: that is how a tick happens once.
    `only_plan` says that only `next_run` and `last_tick` have changed: a store need not write the rest of the row.
    """

    job: Job
    seen_version: int | None
    executions: tuple[ExecutionRow, ...] = ()
    audit: Audit | None = None
    only_plan: bool = False


AddedAs: TypeAlias = Literal["added", "duplicate", "unique_taken", "skipped"]


class Added(msgspec.Struct, frozen=True, gc=False):
    """The result of one insert. `holder` is the live execution that holds the key.

    `execution` is the execution as it was stored, if a wrapper around the store changed it (tracing adds its trace).
    """

    id: str
    outcome: AddedAs
    holder: str | None = None
    execution: ExecutionRow | None = None

    @property
    def recorded(self) -> bool:
        return self.outcome in ("added", "skipped")


class JobWritten(msgspec.Struct, frozen=True):
    won: bool
    added: tuple[Added, ...] = ()


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Claim up to `limit` ready executions whose handler is in `handlers` and whose queue is in `queues` (None: all)
    and not in `without_queues`, which are paused.

    Highest priority first; within a priority the lanes take turns, starting at `turn`. With `alone`, only one
    execution marked `alone` is claimed. A row found blocked uses up one of `limit`, so the work per request is bounded.
    `stamp` identifies this claim in the tokens it gives (`next_token`): no two requests of one owner have the same.
    """

    owner: str
    handlers: frozenset[str]
    queues: frozenset[str] | None
    limit: int
    lease: float
    without_queues: frozenset[str] = frozenset()
    turn: int = 0
    alone: bool = False
    stamp: int = msgspec.field(default_factory=partial(random.getrandbits, STAMP_BITS))


class Blocked(msgspec.Struct, frozen=True):
    """A staged execution that could not take its running key and was deferred."""

    execution: ExecutionRow
    holder: str | None


class Exchanged(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to settle-then-claim. `applied` has an item for each change. `next_due` is when the earliest future
    execution becomes ready, for any worker; `more` says that ready rows this request could claim remain,
    `alone_waiting` that such rows marked `alone` do. `stopped` are the ids of the cancelled jobs of claimed rows.
    """

    applied: tuple[bool, ...] = ()
    claimed: tuple[ExecutionRow, ...] = ()
    stopped: frozenset[str] = frozenset()
    blocked: tuple[Blocked, ...] = ()
    alone_waiting: bool = False
    more: bool = False
    next_due: Micros | None = None
    now: Micros = 0


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the worker that runs this execution to stop it."""

    id: str
    token: int
    at: Micros
    reason: str
    audit: Audit | None = None


class LogLine(msgspec.Struct, frozen=True):
    at: Micros
    level: str
    message: str
    logger: str = ""


class ProgressReport(msgspec.Struct, frozen=True, kw_only=True):
    """Progress, counters and log lines of a running execution, fenced like its ending."""

    id: str
    token: int
    owner: str
    progress_json: str | None = None
    counters_json: str | None = None
    logs: tuple[LogLine, ...] = ()
    labels: tuple[str, ...] = ()


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One process with a node. Each start has a new `id`; the row expires when the heartbeats stop. `ended` is how many
    executions it ended in the last five minutes, by queue, and how many of those were created within them."""

    id: str
    host: str
    pid: int
    version: str
    roles: tuple[str, ...] = ()
    queues: tuple[str, ...] | None = None
    handlers: tuple[str, ...] = ()
    declares: tuple[str, ...] = ()
    concurrency: int = 0
    running: int = 0
    application: str = ""
    release: str = ""
    draining: bool = False
    ended: dict[str, tuple[int, int]] = {}
    lease: float = 0.0
    started: Micros = 0
    seen: Micros = 0


class StoragePart(msgspec.Struct, frozen=True):
    """A table or collection: its bytes with indexes, and its rows as the server estimates them."""

    name: str
    bytes: int
    rows: int


class StorageSize(msgspec.Struct, frozen=True, kw_only=True):
    """What a store is, and how much it holds. What a store cannot say without counting is None or empty. `free` is the
    room that is left on the disk of a file, whose size is `disk`."""

    kind: str
    server: str = ""
    bytes: int | None = None
    free: int | None = None
    disk: int | None = None
    parts: tuple[StoragePart, ...] = ()


class HeartbeatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Keep this worker's row and renew these leases (execution id, token)."""

    worker: WorkerInfo
    leases: tuple[tuple[str, int], ...]
    lease: float


class HeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    """`lost` leases are no longer this worker's; `cancels` maps the ids of executions that should stop to the
    reason."""

    lost: frozenset[str]
    cancels: dict[str, str]
    now: Micros


class NewestLive(msgspec.Struct, frozen=True):
    """The newest live execution of a job: what a view of the job shows of it."""

    id: str
    failures: int
    started: Micros | None


class JobSnapshot(msgspec.Struct, frozen=True):
    """A job, its statistics and its live executions, all at one instant."""

    job: Job
    stats: JobStats
    live: LiveCounts
    newest: NewestLive | None = None


class LockRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    owner: str
    token: int
    acquired: Micros
    expires: Micros


KeyKind: TypeAlias = Literal["overlap", "unique"]


class HeldKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that a live execution holds against others. `since` is when the execution started, or was added if it has
    not started; `until` is the end of its lease, while it runs on `owner`."""

    kind: KeyKind
    key: str
    execution_id: str
    job: str
    state: State
    owner: str | None
    token: int
    since: Micros
    until: Micros | None


class ExecutionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of the execution list, newest id first or `oldest_first`. `before` and `after` are cursors: only ids
    smaller than `before` and greater than `after`. `created_from` is inclusive, `created_to` exclusive.

    `labels` must all be labels of the execution. `workers` are ids of workers, of which one runs it now or, if none
    does, ran its last attempt. `error_text` is part of its error; both are compared in lower case, and the query has it
    in lower case. With `longer_than`, the time from `started` to `finished` is longer; of an execution that runs, the
    time from `started` to the store's now. No other execution is that long. `without_system` leaves out executions of
    Mainspring's own jobs, whose names begin with `SYSTEM_PREFIX`.
    """

    job: str | None = None
    job_id: str | None = None
    states: frozenset[State] | None = None
    trigger: str | None = None
    tenant: str | None = None
    trace_id: str | None = None
    parent_id: str | None = None
    labels: tuple[str, ...] = ()
    handler: str | None = None
    queue: str | None = None
    reason: str | None = None
    error_text: str | None = None
    workers: frozenset[str] | None = None
    longer_than: Micros | None = None
    without_system: bool = False
    created_from: Micros | None = None
    created_to: Micros | None = None
    before: str | None = None
    after: str | None = None
    oldest_first: bool = False
    limit: int = 50
    offset: int = 0

    @property
    def checks_rows(self) -> bool:
        """Whether it has filters that no index serves, so that each row has to be looked at."""
        values = (self.handler, self.queue, self.reason, self.error_text, self.workers, self.longer_than)
        return self.without_system or any(value is not None for value in values)


class ExecutionsFound(msgspec.Struct, frozen=True):
    """A page of executions. `searched_to` is set if the search stopped before the page was full, because it had looked
    at as many as it may: the id of the last one it looked at. Another search continues there, with that id as `before`
    (or `after`, if it is `oldest_first`). None says that nothing else matches, or that the page is full."""

    rows: list[ExecutionRow]
    searched_to: str | None = None


class LaneCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The live executions of one queue and handler. `ready` can be claimed now, `planned` are due later (also those
    deferred or waiting for their retry), `parked` wait for a limit. `oldest` is the earliest due time of the ready
    ones, `next_due` that of the planned ones."""

    queue: str
    handler: str
    ready: int = 0
    planned: int = 0
    parked: int = 0
    running: int = 0
    oldest: Micros | None = None
    next_due: Micros | None = None


class TenantCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The live executions of one tenant: those that wait, whatever for, and those that run."""

    tenant: str
    pending: int = 0
    running: int = 0


class RunSummary(msgspec.Struct, frozen=True, gc=False):
    """An execution without what makes it large: what a grid of runs, a sparkline or a timeline shows. `due` is that of
    the row (`ExecutionRow.due`), which a pause moves."""

    id: str
    state: State
    trigger: str
    created: Micros
    due: Micros
    started: Micros | None = None
    finished: Micros | None = None
    reason: str | None = None

    @property
    def start_at(self) -> Micros:
        """As `ExecutionRow.start_at`: when it is to begin, also while its job is paused."""
        held = self.state is State.PENDING and self.reason == PAUSED and self.due >= HELD
        return self.due - HELD if held else self.due


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on a job; None is no condition. `active`: one of its executions is running or waiting for children;
    `pending`: one is pending; `planned`: the job has a `due`; `last`: the state of its newest finished execution (by
    its statistics, which leave out skipped ones), or None for a job without any."""

    cancelled: bool | None = None
    active: bool | None = None
    paused: bool | None = None
    planned: bool | None = None
    pending: bool | None = None
    last: frozenset[State | None] | None = None


JobOrder: TypeAlias = Literal["name", "handler", "next_run", "last_started", "created", "updated"]


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of the job list. A job matches if it meets one of `any_of` (empty: any job) and all other filters.

    `search` is part of its name, handler or description, in lower case, `name_part` of its name. `without` are names to
    leave out, `without_system` leaves out Mainspring's own jobs, whose names begin with `SYSTEM_PREFIX`; with
    `code_in`, jobs declared in code match only if they are named there.
    `labels` must all be labels of the job (`Job.labels`); `due_before` finds jobs that are not paused and whose `due`
    is earlier.
    Jobs are sorted by `order`, then by name; those without a value come last in both directions. `next_run` is the
    `due` of a job that is not paused. `after` is a cursor by name.
    """

    any_of: tuple[JobFacts, ...] = ()
    handler: str | None = None
    queue: str | None = None
    origin: str | None = None
    search: str | None = None
    name_part: str | None = None
    labels: tuple[str, ...] = ()
    due_before: Micros | None = None
    without: frozenset[str] | None = None
    without_system: bool = False
    code_in: frozenset[str] | None = None
    after: str = ""
    order: JobOrder = "name"
    backwards: bool = False
    limit: int = 50
    offset: int = 0


class JobsFound(msgspec.Struct, frozen=True):
    """One page of names. `count` is the number of all matches, before `after`, `limit` and `offset`, up to the cap."""

    names: list[str]
    count: int


class PruneRule(msgspec.Struct, frozen=True, kw_only=True):
    """Delete finished executions of a job in these states that ended before `older_than` (None: at any time) and are
    not among its `newest` finished ones of any state (skipped ones do not count among those)."""

    job_id: str
    states: frozenset[State]
    older_than: Micros | None
    newest: int = 0


class DuePage(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that are due, and when the next one will be."""

    jobs: tuple[Job, ...]
    next_due: Micros | None
    now: Micros
