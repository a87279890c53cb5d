"""What core needs from the outside world. Adapters implement these protocols; core knows nothing else about them.

The `Store` is small and batch-first. Each primitive is one atomic step per record, or an idempotent insert; none
needs a transaction over several documents. Stores never decide: every transition arrives as a frozen instruction
made by a pure function of core, and the store says whether it could be applied.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from ..model.execution import ExecutionRow, Outcome, State
from ..model.job import Job, JobStats, LiveCounts
from ..model.store.copy_records import Record, RecordKind
from ..model.store.entries import Entry, EntryKind, EntryWrite
from ..model.store.messages import (
    Added,
    Audit,
    CancelRequest,
    Change,
    ClaimRequest,
    DuePage,
    Exchanged,
    ExecutionQuery,
    ExecutionsFound,
    HeartbeatReply,
    HeartbeatRequest,
    HeldKey,
    JobQuery,
    JobsFound,
    JobSnapshot,
    JobWrite,
    JobWritten,
    KeyKind,
    LaneCounts,
    LockRow,
    LogLine,
    ProgressReport,
    PruneRule,
    RunSummary,
    StorageSize,
    TenantCounts,
    WorkerInfo,
)
from ..model.time.instants import Micros
from .rules.new_execution import EnqueueTemplate as EnqueueTemplate  # what core offers stores: a store that accepts
from .rules.new_execution import enqueue_templates as enqueue_templates  # requests in SQL keeps these with the job


class Clock(Protocol):
    """Time as this process sees it. `monotonic` never jumps; `now` may."""

    def now(self) -> Micros: ...
    def monotonic(self) -> float: ...


class HttpAnswer(msgspec.Struct, frozen=True):
    """What a foreign server answered: some of its headers by their lower-case names, and the beginning of its body.
    Nothing in it can be trusted."""

    status: int
    headers: dict[str, str] = {}
    body: bytes = b""
    seconds: float = 0.0


class Sender(Protocol):
    """Sends requests to addresses that users gave."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, deadline: float) -> HttpAnswer:
        """Raises `OSError` if no answer came within `deadline` seconds, or if the address must not be reached."""
        ...


class Topic(StrEnum):
    """The subject of a wake-up. ANY comes from stores that notice a change without knowing its subject."""

    WORK = "work"
    JOBS = "jobs"
    CANCEL = "cancel"
    ENDED = "ended"
    ANY = "any"


Unsubscribe = Callable[[], None]


class LockBackend(Protocol):
    """Where named locks are kept: the store itself, or a server of its own, whose clock counts.

    A backend that cannot confirm an operation raises an error; it never reports a lock it is not sure of.
    """

    async def close(self) -> None: ...

    async def lock_take(self, name: str, owner: str, ttl: float) -> LockRow | None:
        """Take the lock if nobody holds it or it has expired; the token is greater than any given before."""

    async def lock_renew(self, name: str, token: int, ttl: float) -> bool:
        """Hold the lock for `ttl` seconds from now; False if it has expired or another token holds it."""

    async def lock_release(
        self, name: str, token: int | None, keep_for: float = 0.0, audit: Audit | None = None
    ) -> bool:
        """Release the lock under this token (None: any token), or let it expire `keep_for` seconds from now.

        False if it is not held, or not under this token: then no audit record is stored either.
        """

    async def locks(self, first: str = "", limit: int = 1_000) -> list[LockRow]:
        """The locks held now, by name, from this name on."""


class Store(LockBackend, Protocol):
    """All storage primitives, including locks.

    Time: leases, due times and `now` follow the store's own clock. Instants inside records are stored as given.

    Optional: a store that receives wake-ups from other processes over a connection that may break also has
    `hears: bool`, which says whether that connection is known to work at the moment.
    """

    # --- lifecycle ----------------------------------------------------------------------------------------
    async def open(self) -> None:
        """Connect, and create or migrate the schema. Idempotent."""

    async def now(self) -> Micros:
        """The store's clock: the reference for every due time and lease."""

    async def storage_size(self) -> StorageSize:
        """What the store is and how large it is, from the server's own figures: nothing is counted."""

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        """Call back on the running event loop when something changed, here or in another process.

        Wake-ups are hints: they may come late, twice or for no reason, or be lost. Core polls as well.
        """

    # --- jobs ---------------------------------------------------------------------------------------------
    async def write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        """Compare-and-set each job row on its own: insert, or update if the stored version is `seen_version` and
        the stored `id` is the job's own (a job created again under the same name starts at version 1).

        The stored version becomes `seen_version + 1` (1 for an insert). The executions and the audit record of a
        write are stored in the same step, if and only if the write won. `last_number` is the store's own field: a
        write never changes it.
        """

    async def delete_job(self, name: str, seen_version: int, *, purge: bool, audit: Audit | None) -> bool:
        """Delete the job row if its version is `seen_version`; with `purge` also its finished executions and
        statistics."""

    async def jobs(self, names: Sequence[str] | None = None) -> list[Job]:
        """These jobs, or all of them, by name."""

    async def job_snapshots(self, names: Sequence[str]) -> list[JobSnapshot]:
        """These jobs, by name, each with what `stats` and `live_counts` say and its newest live execution: all of one
        instant, so that an execution is counted either as live or as ended, and shown in the state it is counted in."""

    async def jobs_after(self, name: str, limit: int) -> list[Job]:
        """The next jobs by name after this one, for walking over all jobs in small steps."""

    async def job_queues(self) -> list[str]:
        """The queues that jobs name, sorted; the cost grows with the number of queues, not with that of jobs."""

    async def count_jobs(self, cap: int) -> int:
        """The number of jobs, counting no further than `cap`."""

    async def find_jobs(self, query: JobQuery, cap: int) -> JobsFound:
        """The names of the jobs that match, one page of them. Handler, queue and description are those of the
        specification in force (`Job.spec`) at the last write of the row."""

    async def due_jobs(self, limit: int) -> DuePage:
        """Jobs whose `due` has come by the store's clock, earliest first, and the due time of the next one."""

    async def stats(self, job_ids: Sequence[str] | None = None) -> dict[str, JobStats]:
        """Exact statistics by job id: folded ones plus those not folded yet. Jobs without any are absent."""

    async def live_counts(self, job_ids: Sequence[str] | None = None) -> dict[str, LiveCounts]:
        """The number of live executions by job id. Jobs without any are absent."""

    async def swept(self, limit: int) -> list[Job]:
        """Jobs marked `sweep`: their live executions still have to be cancelled, or an event about them handed over."""

    # --- executions ---------------------------------------------------------------------------------------
    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        """Insert each execution on its own, in the order given:

        - its id exists, live or finished: `duplicate`, nothing changes;
        - its `unique_key` is held by a live row: `unique_taken`, nothing is inserted;
        - its `overlap_key` is held by a live row: it is recorded under the same id in the final state `skipped`,
          reason `overlap`, with its `todo` mark. With `overlap_slots` n > 1 the row takes the first free key of `key#0`
          to `key#n-1` and is skipped when all are held (a `running_overlap_key` equal to its `overlap_key` becomes that
          key too);
        - otherwise it is live: `added`.

        A live row holds the keys in its `unique_key` and `overlap_key`. An execution that arrives running (work
        recorded inline) is stored as it is, with owner, token and lease as given. One that arrives in a final state is
        recorded as history as it is, holds no key and is `added` (that is how a gap of missed ticks is recorded).

        Its `labels` are stored with it, as a set; they are deleted with it, and found by `find` until then. Rows that
        `execution`, `find`, `search` and `copy_out` return have their labels, sorted; others need not have them.

        Every execution that is recorded, including skipped and final ones, gets the next number of its job, now or at
        the latest when `fold` has run after it ended. Those recorded as history count in the statistics.

        `audit` is empty, or has a record for each execution: the one at the same place is stored in the same step, if
        and only if that execution was recorded.
        """

    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        """Settle, then claim: two steps in one round trip and one commit, so that the claim sees the keys that the
        settle freed.

        **Settle.** Apply each change only if the row is live and its (state, token, owner) are those expected; with
        `rescue`, also only if its lease has expired by the store's clock. `attempt` is appended, `labels` are added to
        those of the row; `audit` and the note of a `failure` are stored if the change was applied. Such a note is
        found by `list_entries` at the latest after the next `fold`.

        - A change to `pending` makes the row due `delay` seconds from the store's now and clears owner, lease, claim
          and progress. Keys and token stay. With `limits`, the row has those limits from then on.
        - A final change moves the row to history (unless `keep` is false) with `finished = at` and frees its keys.
          Of the first 20 executions (by priority and id) that a claim deferred because of such a key, the first of
          each lane becomes due at once: only one can get the key, and its own ending wakes the next. A staged row
          that is due and ends passes its turn on: its running keys count as freed too. Executions whose time is yet
          to come stay as they are. The ending counts in the statistics, an applied rescue as `rescued`.

        **Claim.** Future rows whose time has come become ready; then rows are claimed as `ClaimRequest` says: state
        running, the next token (`model.execution.next_token`), owner, lease = store now + lease, `claimed` = store now,
        and `started` likewise if unset.

        - Rows are claimed whether or not their job still exists. `stopped` names the cancelled jobs among theirs; for a
          row added after its job was cancelled, the claimer always gets it.
        - Staged rows are claimed one by one: their keys become the running keys and `staged` ends. If another live row
          holds a running key, the row is deferred by 5 s instead and reported as blocked.
        - Rows marked `alone` are left out of other claims.
        - Rows of `without_queues` stay as they are, and `more` and `alone_waiting` do not count them.

        **Shares.** A row with a `share` is in a lane of its own kind, beside the lane of the rows of the same queue and
        handler that have none; both take turns, as lanes do. Within such a lane and a priority, rows are claimed in the
        order of their tags, equal ones by id. A row gets its tag whenever it becomes ready (inserted due, promoted,
        made due by a freed key, woken after it was parked): the greater of (a) the smallest tag among the ready rows of
        its lane and priority, 0 if there is none, and (b) the greatest tag among the ready rows of its lane, priority
        and share, plus 1,000,000 // weight; without such rows (a) alone. Rows of one batch get their tags one after
        another, in the order of their ids. So a share that has nothing waiting goes to the front, and a share with a
        backlog takes turns. Two concurrent writers may give equal tags; that is fair enough.

        **Limits.** A row with `limits` is claimed only if each of them has room: fewer than `concurrency` running rows
        carry the key, and the bucket of its `rate` holds a token (`model.limits.refilled`; a bucket starts full). The
        claim takes one token of each. The numbers that count are those of the row being claimed. However many processes
        claim at once, never more than `concurrency` rows run under a key.

        A row without room is parked: it stays pending, out of the ready order, `parked` names the key of the first
        limit without room, and it uses up one of the request's `limit`. A row that was claimed, or has left `pending`,
        is not parked. A staged row is checked against its limits first, and takes neither slot nor token when its
        running key is held.

        **Wait lines.** Parked rows stand in wait lines: one for each key, kind of limit (slot or token), numbers of the
        limit and lane, so that no row blocks others that have different numbers or are claimed by different workers. A
        line is ordered by priority, place and id. Shares take turns there too, also while no row under the key is
        ready: a row with a share gets its place in the line as ready rows get their tags (from the smallest place in
        its line and priority, and the greatest of its share there); other rows have place 0. A row that was woken and
        is parked in the same line again, before it was claimed or changed, keeps its place.

        To wake n rows of a key means: wake the first n of each of its lines, but no more than the numbers of that line
        have room for. The store wakes

        - as many rows as running rows with that key leave `running` (whatever they become), in the same step;
        - one row of each other key of a row that has room there which it cannot use: the keys of the limits before the
          one it is parked for, and all its keys when it is staged and its running key is held;
        - as many rows as there is room for whenever the key is checked: when its bucket holds tokens again, at the
          latest 5 s after a row was parked, and at once when a change is applied to a row that is parked there or was
          woken and not claimed yet. `next_due` covers those instants too. A check planned more than 5 s ahead is due at
          once: the clock was set back.
        """

    async def expired(self, limit: int) -> list[ExecutionRow]:
        """Running rows whose lease has expired by the store's clock."""

    async def request_cancel(self, requests: Sequence[CancelRequest]) -> list[bool]:
        """Mark running rows (same token) as asked to stop; time and reason of the first request stay.

        True if the row runs under that token, also if it had been asked before.
        """

    async def cancels(self, owner: str) -> dict[str, str]:
        """Cancel requests for rows this owner runs: execution id to reason."""

    async def unserved_cancels(self, limit: int) -> list[ExecutionRow]:
        """Pending or waiting rows with a cancel request: they were asked to stop while running, and handed back."""

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        """Renew leases and the worker's row. Blocking: called from the heartbeat's own thread.

        A lease is renewed if the row is running under this owner and token; all others are reported lost.
        """

    async def report(self, reports: Sequence[ProgressReport]) -> list[bool]:
        """Store progress, counters, log lines and further labels of rows still running under that owner and token.

        The newest 1,000 log lines of an execution are kept. Sequence numbers start at 1 and never repeat.
        """

    async def todo(self, limit: int, after: str = "") -> list[ExecutionRow]:
        """Finished rows whose follow-ups are not known to be done, by id, beginning after the id `after`: so a caller
        can get past rows whose follow-ups fail."""

    async def todo_done(self, ids: Sequence[str]) -> None:
        """Clear the mark; rows that were settled with `keep` false are deleted now."""

    async def children(self, parent_id: str) -> dict[State, int]:
        """The number of children of this parent in each state."""

    async def last_child_ended(self, parent_id: str) -> Micros | None:
        """The latest `finished` among the children of this parent."""

    async def held_keys(self, kind: KeyKind, first: str = "", limit: int = 1_000) -> list[HeldKey]:
        """The keys of this kind that live executions hold, by key, from this key on."""

    async def execution(self, id: str) -> ExecutionRow | None: ...

    async def find(self, query: ExecutionQuery) -> list[ExecutionRow]:
        """Live and finished executions, newest id first unless the query says `oldest_first`."""

    async def search(self, query: ExecutionQuery, budget: int) -> ExecutionsFound:
        """As `find`, for filters that no index serves: candidates are taken along the index that narrows most, in the
        order of the list, about `budget` of them at most. What is left to check of each (handler, queue, reason, error
        text, worker, duration) is checked on the row. `offset` rows that match are left out, as in `find`."""

    async def lane_counts(self) -> list[LaneCounts]:
        """The pending and running executions by queue and handler, sorted, counted along indexes. Queues and handlers
        without any are absent. A pending row that is not parked counts as ready once it is due."""

    async def tenant_counts(self, limit: int) -> list[TenantCounts]:
        """The tenants with the most pending and running executions, by their sum, then by name. Executions without a
        tenant, and those that wait for their children, do not count."""

    async def newest_runs(
        self, job_ids: Sequence[str], limit: int, since: Micros | None = None
    ) -> dict[str, list[RunSummary]]:
        """The newest `limit` executions of each of these jobs, live and finished, by job id, newest id first. Jobs
        without any are absent. Children of a fan-out (rows with a parent and a tenant) are left out; executions of a
        backfill are not. With `since`, executions created before it are left out, and so are those with an older id
        (a tick that was made up for late has the id of its tick).

        The cost grows neither with the history nor with the number of tenants: no more than 10 times `limit` rows of a
        job are looked at. The first page has `limit` rows, further ones have a few, and where a page ends among the
        children of a parent, the next one begins below them (`stores/common/newest_runs.py`)."""

    async def count(self, query: ExecutionQuery, cap: int, budget: int | None = None) -> int:
        """The number of executions that match, counting no further than `cap`. With `budget`, and filters that no index
        serves (`ExecutionQuery.checks_rows`), those among the first candidates of `search`: a lower bound."""

    async def logs(self, id: str, after: int = 0) -> list[tuple[int, LogLine]]:
        """Log lines of an execution with their sequence numbers, beginning after `after`."""

    # --- housekeeping -------------------------------------------------------------------------------------
    async def fold(self, limit: int) -> int:
        """Merge up to `limit` statistics deltas into the per-job totals, number the executions that have no number
        yet, and finish other work left for later. Returns the number of deltas merged: 0 when none is left, always 0
        for a store whose single writer keeps the totals exact."""

    async def prune(self, rule: PruneRule, limit: int) -> int:
        """Delete up to `limit` finished executions by this rule, oldest first. Rows with a `todo` mark stay."""

    async def delete_executions(self, ids: Sequence[str], audits: Sequence[Audit]) -> list[bool]:
        """Delete each of these executions if it has finished and has no `todo` mark, with its labels and log lines. The
        audit record at the same place is stored in the same step, if and only if the execution was deleted. Statistics
        and numbers stay."""

    async def prune_workers(self, silent_for: float) -> int:
        """Delete workers that were silent for so many seconds, and expired locks. Returns the number of workers."""

    async def workers(self) -> list[WorkerInfo]: ...

    async def remove_worker(self, id: str) -> None: ...

    async def audits(self, target: str | None = None, limit: int = 100, before: str | None = None) -> list[Audit]:
        """Audit records, newest id first, beginning before the id `before`."""

    async def prune_audits(self, before: str, limit: int) -> int:
        """Delete up to `limit` audit records with ids smaller than this, smallest first. Returns how many."""

    # --- entries ------------------------------------------------------------------------------------------
    async def write_entries(self, writes: Sequence[EntryWrite]) -> list[bool]:
        """Compare-and-set each entry on its own, in the order given; a put increases the stored version by 1.

        The audit record is stored in the same step, if and only if the write won. Removing an entry that does not
        exist wins only with `seen_version` None.
        """

    async def list_entries(
        self, kind: EntryKind, scope: str, *, after: str = "", before: str | None = None, limit: int = 1_000
    ) -> list[Entry]:
        """The entries of one scope with keys between these two (both exclusive), by key in code point order."""

    async def entries(self, kind: EntryKind, scope: str, keys: Sequence[str]) -> list[Entry]:
        """Those of these entries that exist, by key."""

    # --- copying to another store -------------------------------------------------------------------------
    async def copy_out(self, kind: RecordKind, after: str, limit: int) -> list[Record]:
        """The next records of this kind by key (`copy_records.key_of`, in code point order) after this one: jobs with
        version and last number; executions, live and finished, with number, attempts and log lines; incarnations that
        have numbers or statistics (exact ones, as `stats`); audit records; entries."""

    async def copy_in(self, kind: RecordKind, records: Sequence[Record]) -> int:
        """Insert these records as they are. Returns how many were new, once they are durable. A record whose key exists
        is left alone, so a copy can be repeated. Nothing else follows: no number is used, nothing is counted in the
        statistics, no key is tried; the `last_number` of a job is that of its incarnation.

        Incarnations come before their executions, jobs last. If the key of a live execution is held, an error is
        raised. A live execution without a number gets the next one if the store numbers executions at insert. A
        pending row that a claim had deferred waits until it is due, whatever key is freed before.
        """


class CallerTransaction(Protocol):
    """A store that can enqueue inside a transaction its caller holds open."""

    def add_in(self, connection: Any, executions: Iterable[ExecutionRow]) -> list[Added] | Awaitable[list[Added]]:
        """As `add`, in the caller's thread, through the caller's connection; committed or rolled back with it.

        Awaitable when the connection is one that must be awaited.
        """


class TracedAttempt(Protocol):
    """One attempt of an execution as a tracer sees it. No call raises."""

    def enter(self) -> object:
        """Called in the handler's task or thread before the handler begins. A caller that stays in that task passes
        the result to `leave`."""

    def leave(self, entered: Any) -> None: ...

    def ended(self, outcome: Outcome | None, error: BaseException | None) -> None:
        """Called once, on the event loop; `outcome` is None when the handler was stopped before its first step."""

    def headers(self) -> dict[str, str]:
        """The trace context of this attempt, for a process that continues its trace."""


class Tracing(Protocol):
    """Traces attempts, if tracing is on. A wrapper around the store traces how executions are created."""

    def begin(self, execution: ExecutionRow, worker: str) -> TracedAttempt | None: ...

    def outside(self) -> AbstractContextManager[None]:
        """Tasks started inside this block outlive the current trace, so they do not belong to it."""


StopKind: TypeAlias = Literal["timeout", "cancelled", "handed_back", "lost"]
"""Why a handler is asked to stop."""


class ProcessDied(msgspec.Struct, frozen=True, gc=False):
    """The process of a handler ended before the handler did. `reason` is `out_of_memory`, `cpu_limit`, `exit_code` or
    `signal`, or `error` if no process could be started."""

    reason: str
    error: str
    traceback: str | None = None
    cpu_ms: float | None = None
    memory_mb: float | None = None


class IsolatedAttempt(Protocol):
    """An attempt that runs in a process of its own. The pool calls all of this on the event loop."""

    @property
    def execution(self) -> ExecutionRow: ...

    @property
    def worker(self) -> str: ...

    @property
    def started(self) -> Micros: ...

    @property
    def began(self) -> float:
        """On the monotonic clock."""

    @property
    def limit(self) -> float | None:
        """Seconds that it may take."""

    @property
    def trace_headers(self) -> dict[str, str]: ...

    def begins(self) -> bool:
        """A process is free. False if it is too late: then nothing else is called."""

    def reported(
        self, progress: str | None, counters: str | None, lines: tuple[LogLine, ...], labels: tuple[str, ...] = ()
    ) -> None: ...

    def ended(self, how: Outcome | ProcessDied) -> None: ...


class Isolated(Protocol):
    """An attempt in the hands of the pool."""

    def stop(self, kind: StopKind, reason: str, within: float | None = None) -> None:
        """Ask the handler to stop; end it with SIGTERM, then with SIGKILL, if it does not. With `within`, the last step
        is taken by then. An attempt that has no process yet does not begin."""

    def kill(self) -> None:
        """The worker stops, and waits no longer: end the process now. `ended` is not called any more."""


class ProcessPool(Protocol):
    """Runs handlers in child processes, which have imported the same application."""

    async def start(self) -> None:
        """Start the first child. `ConfigurationError` if it cannot import the application."""

    def run(self, attempt: IsolatedAttempt) -> Isolated: ...

    async def close(self, patience: float) -> None:
        """End all children; those that are idle get so many seconds to clean up."""
