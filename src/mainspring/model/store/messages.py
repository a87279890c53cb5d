"""What core asks of a store: frozen instructions, made by the pure functions of core, obeyed by every store alike.

A store applies a `Change` only if the execution is still as the decision saw it (`expect`, `token`, `owner`) and
says whether it did. It never asks why.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ..execution import AttemptRecord, ExecutionRow, State
from ..job import Job
from ..time.instants import Micros


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """Who changed what: written in the same step as the change itself."""

    id: str
    at: Micros
    actor: str
    action: str
    target: str
    before: str | None = None
    after: str | None = None
    request_id: str | None = None


class Change(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A transition of one execution. Built only by `core.rules.transitions`."""

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
    audit: Audit | None = None


class JobWrite(msgspec.Struct, frozen=True, kw_only=True):
    """Compare-and-set of one job row. `seen_version` None means: only if no such job exists.

    `executions` are inserted in the same step, and only if the write won: that is how a tick happens once.
    `only_plan` says that nothing but `next_run` and `last_tick` differs from what was seen: a store may leave the
    rest of the row alone.
    """

    job: Job
    seen_version: int | None
    executions: tuple[ExecutionRow, ...] = ()
    audit: Audit | None = None
    only_plan: bool = False


AddedAs: TypeAlias = Literal["added", "duplicate", "unique_taken", "skipped"]


class Added(msgspec.Struct, frozen=True, gc=False):
    """What became of one insert. `holder` is the live execution that holds the key.

    `execution` is what was stored, where somebody between caller and store added to what was given: its trace.
    """

    id: str
    outcome: AddedAs
    holder: str | None = None
    execution: ExecutionRow | None = None


class JobWritten(msgspec.Struct, frozen=True):
    won: bool
    added: tuple[Added, ...] = ()


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Claim up to `limit` ready executions whose handler is in `handlers` and whose queue is in `queues` (None: all).

    Highest priority first; within a priority the lanes take turns, starting at `turn`. With `alone`, only one
    execution marked `alone` is claimed. A row found blocked uses up one of `limit`: work per request is bounded.
    """

    owner: str
    handlers: frozenset[str]
    queues: frozenset[str] | None
    limit: int
    lease: float
    turn: int = 0
    alone: bool = False


class Blocked(msgspec.Struct, frozen=True):
    """A staged execution that could not take its running key and was deferred."""

    execution: ExecutionRow
    holder: str | None


class Exchanged(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to settle-then-claim. `next_due` is when the earliest future execution becomes ready, whoever may
    claim it; `more` says that ready rows this request could claim remain, `alone_waiting` that rows marked `alone` do.
    `stopped` are the ids of cancelled jobs that rows were claimed of.
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


class ProgressReport(msgspec.Struct, frozen=True, kw_only=True):
    """Progress, counters and log lines of a running execution; fenced like its ending."""

    id: str
    token: int
    owner: str
    progress_json: str | None = None
    counters_json: str | None = None
    logs: tuple[LogLine, ...] = ()


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One process that takes part. A fresh `id` each start; the row expires when its beats stop."""

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
    lease: float = 0.0
    started: Micros = 0
    seen: Micros = 0


class HeartbeatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A heartbeat: keep this worker's row and renew these leases (execution id, token)."""

    worker: WorkerInfo
    leases: tuple[tuple[str, int], ...]
    lease: float


class HeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    """`lost` leases belong to someone else now; `cancels` maps execution id to the reason it should stop."""

    lost: frozenset[str]
    cancels: dict[str, str]
    now: Micros


class LockRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    owner: str
    token: int
    acquired: Micros
    expires: Micros


class ExecutionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of the execution list, newest id first or `oldest_first`. `before` and `after` are cursors: only ids
    smaller than the one, and greater than the other.

    `created_from` is included, `created_to` is not.
    """

    job: str | None = None
    job_id: str | None = None
    states: frozenset[State] | None = None
    trigger: str | None = None
    tenant: str | None = None
    trace_id: str | None = None
    parent_id: str | None = None
    created_from: Micros | None = None
    created_to: Micros | None = None
    before: str | None = None
    after: str | None = None
    oldest_first: bool = False
    limit: int = 50
    offset: int = 0


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What must be so of a job; what is None does not matter. `active`: one of its executions runs or waits for its
    children; `pending`: one is pending; `planned`: it has a `due`; `last`: the state of its newest ended execution (by
    statistics, skipped ones apart), None in the set for a job none of whose executions has ended."""

    cancelled: bool | None = None
    active: bool | None = None
    paused: bool | None = None
    planned: bool | None = None
    pending: bool | None = None
    last: frozenset[State | None] | None = None


JobOrder: TypeAlias = Literal["name", "handler", "next_run", "last_started", "created", "updated"]


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of the job list. A job is wanted if it meets one of `any_of` (empty: whatever is so of it) and all else.

    `search` is part of its name, handler or description, in lower case. `without` are names that are not wanted, and of
    the jobs of code only those in `code_in` are, if it is given.
    Jobs come by `order`, equal ones by name, those without a value last either way. `next_run` is the `due` of a job
    that is not paused. `after` is a cursor by name.
    """

    any_of: tuple[JobFacts, ...] = ()
    handler: str | None = None
    queue: str | None = None
    origin: str | None = None
    search: str | None = None
    without: frozenset[str] | None = None
    code_in: frozenset[str] | None = None
    after: str = ""
    order: JobOrder = "name"
    backwards: bool = False
    limit: int = 50
    offset: int = 0


class JobsFound(msgspec.Struct, frozen=True):
    """`count` is how many match in all, whatever `after`, `limit` and `offset` say, counted up to the cap asked for."""

    names: list[str]
    count: int


class PruneRule(msgspec.Struct, frozen=True, kw_only=True):
    """Delete finished executions of a job in these states that ended before `older_than` (None: whatever their age)
    and are not among its `newest` finished ones of any state (skipped ones are never counted among them)."""

    job_id: str
    states: frozenset[State]
    older_than: Micros | None
    newest: int = 0


class DuePage(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs to look at now, and when the next one comes up."""

    jobs: tuple[Job, ...]
    next_due: Micros | None
    now: Micros
