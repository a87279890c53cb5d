"""The filters of executions: the table, what a filter asks of a store, and whether it finds an execution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from ...model.errors import InvalidValue
from ...model.execution import ExecutionRow, State, TriggeredBy
from ...model.labels import error_label
from ...model.store.messages import ExecutionQuery
from ...model.time.instants import Micros, to_datetime
from ...model.values.reading import SYSTEM_PREFIX
from .fields import Field, read_fields, refuse_nothing, table_of

FIELDS = table_of(
    Field(name="job", kind="name", meaning="the job, even if it was removed"),
    Field(name="handler", meaning="the handler"),
    Field(name="queue", meaning="the queue"),
    Field(
        name="status", kind="choice", choices=tuple(state.value for state in State), several=True, meaning="the status"
    ),
    Field(name="running", kind="switch", meaning="whether it is running"),
    Field(name="reason", meaning="the reason for its status, such as `timeout` or `overlap`"),
    Field(name="error_group", meaning="the group of its error"),
    Field(name="error", meaning="part of its error message, ignoring case"),
    Field(name="tenant", meaning="the tenant"),
    Field(name="worker", meaning="the id of the worker that runs it, or ran its last attempt"),
    Field(name="release", meaning="the release of the application that runs it, or ran its last attempt"),
    Field(name="trigger", kind="choice", choices=get_args(TriggeredBy), meaning="what started it"),
    Field(name="search", kind="pair", several=True, meaning="a search key and its value, such as `order_id=4711`"),
    Field(name="longer_than", kind="duration", meaning="it ran, or has been running, for longer than this"),
    Field(name="since", kind="instant", meaning="created at this time or later; `2h` is two hours ago"),
    Field(name="until", kind="instant", meaning="created before this time"),
    Field(name="trace_id", meaning="the trace id"),
    Field(name="parent_id", meaning="the id of the parent, or of the backfill"),
)
"""Every filter of executions by its name."""


class ExecutionFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checked filter of executions; None does not filter. Instants are absolute, so a stored filter keeps its
    meaning. `system` includes executions of Mainspring's own jobs, and so does naming the job."""

    job: str | None = None
    handler: str | None = None
    queue: str | None = None
    status: tuple[State, ...] | None = None
    running: bool | None = None
    reason: str | None = None
    error_group: str | None = None
    error: str | None = None
    tenant: str | None = None
    worker: str | None = None
    release: str | None = None
    trigger: str | None = None
    search: tuple[str, ...] | None = None
    longer_than: Micros | None = None
    since: Micros | None = None
    until: Micros | None = None
    trace_id: str | None = None
    parent_id: str | None = None
    system: bool = False


def execution_filter(given: Mapping[str, Any], now: Micros, *, system: bool = False) -> ExecutionFilter:
    """Check the given filter. `now` is the store's time, to which `2h` ago is relative."""
    fields = read_fields(FIELDS, given, now)
    if "status" in fields:
        fields["status"] = tuple(State(name) for name in fields["status"])
    found = ExecutionFilter(**fields, system=system)
    if found.since is not None and found.until is not None and found.until <= found.since:
        raise InvalidValue("until", given["until"], f"a time after since, which is {to_datetime(found.since):%FT%TZ}")
    return found


def bulk_execution_filter(given: Mapping[str, Any], now: Micros) -> ExecutionFilter:
    """The filter of a bulk action, which needs at least one field."""
    found = execution_filter(given, now)
    refuse_nothing(FIELDS, {name: value for name, value in given.items() if value is not None})
    return found


def execution_query(wanted: ExecutionFilter, workers: frozenset[str] | None = None) -> ExecutionQuery:
    """The query to the store for this filter. `workers` are the ids of the workers of its release."""
    if wanted.worker is not None:
        own = frozenset({wanted.worker})
        workers = own if workers is None else own & workers
    labels = () if wanted.error_group is None else (error_label(wanted.error_group),)
    return ExecutionQuery(
        job=wanted.job,
        handler=wanted.handler,
        queue=wanted.queue,
        states=_states(wanted.status, wanted.running),
        reason=wanted.reason,
        labels=(*labels, *(wanted.search or ())),
        error_text=None if wanted.error is None else wanted.error.lower(),
        tenant=wanted.tenant,
        workers=workers,
        trigger=wanted.trigger,
        longer_than=wanted.longer_than,
        created_from=wanted.since,
        created_to=wanted.until,
        trace_id=wanted.trace_id,
        parent_id=wanted.parent_id,
        without_system=not (wanted.system or wanted.job is not None or _names_system(wanted)),
    )


def _names_system(wanted: ExecutionFilter) -> bool:
    return any((name or "").startswith(SYSTEM_PREFIX) for name in (wanted.handler, wanted.queue))


def _states(status: tuple[State, ...] | None, running: bool | None) -> frozenset[State] | None:
    if running is None:
        return None if status is None else frozenset(status)
    wanted = frozenset({State.RUNNING}) if running else frozenset(State) - {State.RUNNING}
    return wanted & (frozenset(State) if status is None else frozenset(status))


def is_wanted(row: ExecutionRow, query: ExecutionQuery, now: Micros) -> bool:
    """Whether the query finds this execution. Every store must find exactly these."""
    same = ("job", "job_id", "handler", "queue", "reason", "tenant", "trigger", "trace_id", "parent_id")
    return (
        all(getattr(query, name) in (None, getattr(row, name)) for name in same)
        and (query.states is None or row.state in query.states)
        and (query.created_from is None or row.created >= query.created_from)
        and (query.created_to is None or row.created < query.created_to)
        and set(query.labels) <= set(row.labels)
        and (query.error_text is None or query.error_text in (row.error or "").lower())
        and (query.workers is None or last_worker(row) in query.workers)
        and (query.longer_than is None or _took(row, now) > query.longer_than)
        and not (query.without_system and row.job.startswith(SYSTEM_PREFIX))
    )


def last_worker(row: ExecutionRow) -> str | None:
    """The worker that runs it, or else the one that ran its last attempt."""
    return row.attempts[-1].worker if row.owner is None and row.attempted else row.owner


def _took(row: ExecutionRow, now: Micros) -> Micros:
    """How long it ran, or has been running; -1 for executions that neither ran nor run."""
    end = now if row.state is State.RUNNING else row.finished
    return -1 if row.started is None or end is None else end - row.started
