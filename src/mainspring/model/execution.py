"""An execution: one run of a job. It waits and runs as a live row and stays as a record afterwards."""

from __future__ import annotations

import zlib
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

from .error_groups import Fingerprint
from .policies import RunPolicy
from .time.instants import SECOND, Micros, maybe_datetime, seconds_to_micros, to_datetime


class State(StrEnum):
    """The state of an execution. The first three are live; the others are final and never change."""

    PENDING = "pending"
    """Waits for its time, for a worker, or for its next attempt."""
    RUNNING = "running"
    """A worker runs it."""
    WAITING = "waiting"
    """It runs once for each of several tenants, and waits until all of them have ended."""
    COMPLETED = "completed"
    """The handler returned."""
    PARTIAL = "partial"
    """Some of its tenants completed and others did not."""
    FAILED = "failed"
    """The last attempt failed, or an error permits no other."""
    CANCELLED = "cancelled"
    """Somebody cancelled it."""
    SKIPPED = "skipped"
    """It did not run, on purpose: `reason` says why."""

    final: bool
    """Whether an execution in this state has ended for good."""

    def __init__(self, name: str) -> None:
        self.final = name not in ("pending", "running", "waiting")


FINAL = frozenset(state for state in State if state.final)
LIVE = frozenset(State) - FINAL
HELD: Micros = 100 * 365 * 86_400 * SECOND
"""How far the due time of a held execution is moved. Moved back, it is what it was."""
PAUSED = "paused"
"""The reason of a held execution."""

StateName: TypeAlias = Literal[
    "pending", "running", "waiting", "completed", "partial", "failed", "cancelled", "skipped"
]
Status: TypeAlias = State | StateName
"""The state of an execution, also by its name."""

TriggeredBy: TypeAlias = Literal["schedule", "api", "manual", "enqueue", "retry", "backfill", "catch_up", "dependency"]

AttemptEnd: TypeAlias = Literal[
    "completed", "failed", "timeout", "snoozed", "handed_back", "worker_lost", "cancelled", "fanned_out", "skipped"
]

AskedBy: TypeAlias = Literal["timeout", "cancel"]
"""Why a running attempt was asked to stop."""

EDITED = "mainspring.edited"
"""Key of the metadata of a retry with other parameters: which of them differ from those of the execution it repeats."""

CANCEL_GRACE: Micros = SECOND
"""Until then a cancelled handler may not have heard of it."""


class AttemptRecord(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One try of an execution."""

    number: int
    worker: str
    started: Micros
    ended: Micros
    end: AttemptEnd
    error: str | None = None
    traceback: str | None = None
    cpu_ms: float | None = None
    memory_mb: float | None = None
    overran: AskedBy | None = None
    """It went on although it was asked to stop."""
    reason: str | None = None
    """Why it failed, if not by an error of the handler: `out_of_memory`, `cpu_limit`, `exit_code`, `signal`,
    `broken_channel` or `payload_mismatch`."""
    error_group: str | None = None
    """The id of the error group that a failed try belongs to."""
    tags: tuple[str, ...] = ()
    """Labels of the search keys that the handler added, if another try follows."""

    @property
    def started_at(self) -> datetime:
        return to_datetime(self.started)

    @property
    def ended_at(self) -> datetime:
        return to_datetime(self.ended)

    @property
    def duration_ms(self) -> float:
        return (self.ended - self.started) / 1000


STAMP_BITS = 32


def next_token(token: int, stamp: int) -> int:
    """The token of the next claim: the number of claims, followed by 32 bits that are the stamp of this one. The stamp
    keeps two claims apart even if a crash of the database undid the first. Two million claims fit into the 53 bits that
    JSON keeps exact.

    >>> first = next_token(0, stamp=7)
    >>> first == (1 << 32) + 7, next_token(first, stamp=0) > first, next_token(0, stamp=8) == first
    (True, True, False)
    """
    return (token >> STAMP_BITS) + 1 << STAMP_BITS | stamp


def claim_stamp(owner: str, number: int) -> int:
    """The stamp of the owner's claim of that number. Owners begin at different stamps.

    >>> claim_stamp("a", 1) != claim_stamp("a", 2) != claim_stamp("b", 2)
    True
    """
    return zlib.crc32(owner.encode()) + number & (1 << STAMP_BITS) - 1


class ExecutionRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Every field a store keeps of an execution. JSON fields are text, opaque to stores.

    Three numbers, never mixed: `token` grows with every claim (the fence, see `next_token`), `failures` is what the
    retry budget counts, `crashes` counts lost workers.

    `gc=False`, here and on what else is made for each execution: it holds nothing that could lead back to it, so the
    collector of cycles need not look.
    """

    id: str
    job: str
    job_id: str
    handler: str
    queue: str = "default"
    state: State = State.PENDING
    trigger: str = "enqueue"
    triggered_by: str = "system"
    trace_id: str = ""
    traceparent: str | None = None
    number: int | None = None
    params: str = "{}"
    policy: str = "{}"
    tick: Micros | None = None
    window_begin: Micros | None = None
    window_end: Micros | None = None
    tenant: str | None = None
    parent_id: str | None = None
    retry_of: str | None = None
    priority: int = 0
    created: Micros = 0
    due: Micros = 0

    # Keys are unique among live rows. A staged row trades its keys for the running ones at first pick-up.
    unique_key: str | None = None
    overlap_key: str | None = None
    running_unique_key: str | None = None
    running_overlap_key: str | None = None
    staged: bool = False
    overlap_slots: int = 1  # only read at insert: with n > 1 the keys tried are `key#0` to `key#n-1`

    # Ready rows of one lane that have a share take turns by it, `weight` of them for one of weight 1.
    share: str | None = None
    weight: int = 1
    limits: str | None = None  # JSON list of `model.limits.Limit`, keys filled in
    labels: tuple[str, ...] = ()  # texts by which it is found: see model.labels
    flow: str | None = None  # what executions that follow from one another have in common: see core.dependencies.rules

    token: int = 0
    owner: str | None = None
    lease: Micros | None = None
    failures: int = 0
    crashes: int = 0
    alone: bool = False
    cancel_requested: Micros | None = None
    cancel_reason: str | None = None
    parked: str | None = None  # the key of the limit that keeps this pending row from being claimed

    claimed: Micros | None = None
    started: Micros | None = None
    finished: Micros | None = None
    reason: str | None = None
    error: str | None = None
    attempts_json: str = "[]"
    result_json: str | None = None
    counters_json: str | None = None
    metadata_json: str | None = None
    progress_json: str | None = None
    todo: bool = False

    @property
    def rules(self) -> RunPolicy:
        return decode_policy(self.policy)

    @property
    def claims(self) -> int:
        """How often it has been claimed."""
        return self.token >> STAMP_BITS

    @property
    def readable(self) -> bool:
        """False for rules of a newer release that this one cannot follow."""
        try:
            return self.rules is not None
        except msgspec.DecodeError:
            return False

    @property
    def fans_out(self) -> bool:
        """Whether this is a parent: its handler runs once for each tenant, in executions of their own."""
        return self.tenant is None and self.rules.fan_out is not None

    @property
    def from_backfill(self) -> bool:
        """A backfill made this execution, so its parent is a backfill. A tenant's child of such an execution has that
        execution as its parent."""
        return self.trigger == "backfill" and self.tenant is None

    @property
    def skipped_for_overlap(self) -> bool:
        """It never ran, because another execution held its overlap key when it was added."""
        return self.state is State.SKIPPED and self.reason == "overlap"

    @property
    def for_some(self) -> bool:
        """Whether this is a parent for chosen tenants only, so that its outcome says nothing about the others."""
        fan_out = self.rules.fan_out
        return self.tenant is None and fan_out is not None and fan_out.chosen

    @property
    def attempt(self) -> int:
        """The number of the try that runs, waits or was the last, as the retry budget counts: failures + 1, except
        that the failure of the last try is counted already."""
        return self.failures if self.state is State.FAILED and self.failures else self.failures + 1

    @property
    def attempted(self) -> bool:
        """Whether a try of it has ended, however it went. A claim given back before it began is none."""
        return self.attempts_json != "[]"

    @property
    def attempts(self) -> list[AttemptRecord]:
        return msgspec.json.decode(self.attempts_json, type=list[AttemptRecord])

    @property
    def result(self) -> Any:
        return _json(self.result_json)

    @property
    def counters(self) -> dict[str, float]:
        return _json(self.counters_json) or {}

    @property
    def metadata(self) -> dict[str, Any]:
        return _json(self.metadata_json) or {}

    @property
    def edited(self) -> dict[str, dict[str, Any]]:
        """The parameters that differ from those of the execution that it repeats, each with `before` and `after`."""
        if self.metadata_json is None or EDITED not in self.metadata_json:
            return {}
        found = self.metadata.get(EDITED)
        return found if isinstance(found, dict) else {}

    @property
    def progress(self) -> dict[str, Any] | None:
        return _json(self.progress_json)  # type: ignore[no-any-return]

    @property
    def arguments(self) -> dict[str, Any]:
        return _json(self.params)  # type: ignore[no-any-return]

    @property
    def error_group(self) -> str | None:
        """The id of the error group of its newest failed attempt; None unless it has an error."""
        if self.error is None:
            return None
        groups = (each.error_group for each in reversed(self.attempts) if each.error_group is not None)
        return next(groups, None) or next((each[1:] for each in self.labels if each.startswith("!")), None)

    @property
    def timeout_at(self) -> datetime | None:
        """When the attempt that runs should end at the latest."""
        if self.state is not State.RUNNING or self.claimed is None or (limit := self.time_limit(self.claimed)) is None:
            return None
        return to_datetime(self.claimed + seconds_to_micros(limit))

    @property
    def run_deadline(self) -> Micros | None:
        """When its `run_timeout` is up; None without one, and before its first attempt has started."""
        return self.run_ends(self.claimed)

    def run_ends(self, start: Micros | None) -> Micros | None:
        """The same; `start` is when the present attempt started, which matters if it is the first."""
        limit = self.rules.run_timeout
        if limit is None:
            return None
        first = self.started if self.attempted else start
        return None if first is None else first + seconds_to_micros(limit)

    def time_limit(self, start: Micros) -> float | None:
        """Seconds that an attempt may take that starts then: its timeout, or what is left for the run; 0 if nothing
        is. None for any time."""
        rules = self.rules
        timeout = rules.timeout
        if rules.run_timeout is None or (end := self.run_ends(start)) is None:
            return timeout
        left = max(0, end - start) / SECOND
        return left if timeout is None else min(left, timeout)

    def overruns(self, now: Micros) -> AskedBy | None:
        """Whether the attempt that runs should have ended by now, and why."""
        if (end := self.timeout_at) is not None and to_datetime(now) > end:
            return "timeout"
        asked = self.cancel_requested if self.state is State.RUNNING else None
        return "cancel" if asked is not None and now - asked > CANCEL_GRACE else None

    @property
    def created_at(self) -> datetime:
        return to_datetime(self.created)

    @property
    def held(self) -> bool:
        """It waits because its job is paused."""
        return self.state is State.PENDING and self.reason == PAUSED and self.due >= HELD

    @property
    def start_at(self) -> datetime:
        return to_datetime(self.due - HELD if self.held else self.due)

    @property
    def scheduled_at(self) -> datetime | None:
        return maybe_datetime(self.tick)

    @property
    def started_at(self) -> datetime | None:
        return None if self._unbegun else maybe_datetime(self.started)

    @property
    def _unbegun(self) -> bool:
        """Whether it was claimed, if at all, only to be given back."""
        return not self.attempted and self.state in (State.PENDING, State.CANCELLED)

    @property
    def finished_at(self) -> datetime | None:
        return maybe_datetime(self.finished)

    @property
    def cancel_requested_at(self) -> datetime | None:
        return maybe_datetime(self.cancel_requested)

    @property
    def duration_ms(self) -> float | None:
        if self.started is None or self.finished is None or self._unbegun:
            return None
        return (self.finished - self.started) / 1000


def lane(queue: str, handler: str) -> str:
    """Ready work is claimed lane by lane; neither part can contain the slash."""
    return f"{queue}/{handler}"


@lru_cache(maxsize=4096)
def decode_policy(text: str) -> RunPolicy:
    return msgspec.json.decode(text, type=RunPolicy)


@lru_cache(maxsize=4096)
def encode_policy(policy: RunPolicy) -> str:
    return msgspec.json.encode(policy).decode()


def encode_attempts(attempts: list[AttemptRecord]) -> str:
    return msgspec.json.encode(attempts).decode()


def _json(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


class Outcome(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The end of one try. `retryable` matters for failures, the JSON texts for every end. `delay` is how long a snooze
    lasts, and the least that the next try after a failure waits."""

    end: AttemptEnd
    started: Micros
    ended: Micros
    worker: str
    error: str | None = None
    traceback: str | None = None
    reason: str | None = None
    retryable: bool = True
    delay: float = 0.0
    cpu_ms: float | None = None
    memory_mb: float | None = None
    result_json: str | None = None
    counters_json: str | None = None
    metadata_json: str | None = None
    overran: AskedBy | None = None
    labels: tuple[str, ...] = ()
    """Search keys that the handler has added."""
    fingerprint: Fingerprint | None = None
    """Of the exception that the handler raised. What failed without one is grouped by its reason."""
    release: str = ""
    """The release of the worker that ran an attempt which failed."""
    begun: bool = True
    """False for a claim that was given back, or stopped, before the handler was called."""
