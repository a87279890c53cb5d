"""The JSON form of every entity: which fields it has, and how it is rendered from what users hold.

The HTTP interface and the `-o json` of the command line both render through these, and the OpenAPI document is
generated from the same classes. A field is read from the attribute of the same name; `rename` says where JSON calls it
something else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ...model.backfill import Windows, WindowStatus
from ...model.bulk import BulkItemRow, BulkPreview
from ...model.execution import State
from ...model.job import JobSpec, JobState, LiveCounts
from ...model.triggers import decode_trigger
from ...model.triggers.interval import interval_pair
from ...model.windows import Window
from ..bulk.rules import outcome
from ..commands.bulk import BulkItem, BulkResult
from ..commands.templates import Template
from ..commands.tenant_retries import TenantRun
from ..declaring.options import policy_fields
from ..declaring.registry import Handler
from ..jobs.calendars import CalendarView
from ..monitoring.missed_runs import MissedReason, MissedRuns
from ..monitoring.totals import Totals
from ..monitoring.why import Reason
from ..queries.changes import RecordedChange
from ..rules.secret_params import mask, mask_fields
from ..rules.stopping import stop_text
from ..views.execution import Attempt, Execution
from ..views.job import JobTotals, JobView, OccurrenceView, job_of
from ..views.records import AuditRecord, Backfill, BulkAction, LockView, LogEntry, WorkerView
from .masking import masked, masked_record, shown_params

Instant = Annotated[datetime, Meta(tz=True)]


class JsonForm(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of an entity in JSON."""


def rendered(form: type[JsonForm], source: object, **given: Any) -> dict[str, Any]:
    """The JSON form of an object as plain data: fields that are not `given` are read from its attributes, instants in
    UTC. Secrets among its parameters are masked."""
    fields = form.__struct_fields__
    if "params" in fields and "params" not in given:
        given["params"] = shown_params(source)
    values = {name: given[name] if name in given else _utc(getattr(source, name)) for name in fields}
    plain: dict[str, Any] = msgspec.to_builtins(form(**values))
    return plain


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def instant_text(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


# --- jobs -----------------------------------------------------------------------------------------------------


class LiveJson(JsonForm):
    pending: int
    running: int
    waiting: int


class CountsJson(
    JsonForm,
    rename={
        "total": "total_executions",
        "completed": "successful_runs",
        "partial": "partial_runs",
        "failed": "failed_runs",
        "cancelled": "cancelled_runs",
        "skipped": "skipped_runs",
    },
):
    total: int
    completed: int
    partial: int
    failed: int
    cancelled: int
    skipped: int
    average_duration_ms: float | None
    success_rate: Annotated[
        float | None,
        Meta(
            description="From 0 to 1: the completed ones among those completed, partial and failed. Of a job with"
            " tenants, each tenant's execution counts, and their parent's."
        ),
    ]


class JobStatsJson(CountsJson):
    last_execution_at: Instant | None
    next_scheduled_at: Instant | None


class OccurrenceJson(JsonForm, rename={"moved_to": "to"}):
    """One run of the schedule that was skipped (`to` is null) or moved."""

    at: Instant
    moved_to: Instant | None
    by: str


class DeclarerJson(JsonForm):
    """An application that declares a job, and the code behind it."""

    application: str
    handler: str


class JobJson(
    JsonForm,
    forbid_unknown_fields=False,
    rename={"state": "status", "description_of_schedule": "schedule_description", "enabled": "schedule_enabled"},
):
    """With a default handler (the setting `api_handler`), parameters stand under `params` and also at the top level."""

    id: str
    name: str
    handler: str
    description: str
    queue: str
    params: dict[str, Any]
    state: JobState
    last_status: State | None
    schedule: str | None
    description_of_schedule: str
    enabled: bool
    interval_minutes: int | None
    interval_type: str | None
    next_run_at: Instant | None
    after: Annotated[list[str], Meta(description="The jobs that it comes after.")]
    dependents: Annotated[list[str], Meta(description="The jobs that come after it.")]
    hours: Annotated[str | None, Meta(description="When it may run, in words.")]
    closed_until: Instant | None
    closed_by: str | None
    last_run_at: Instant | None
    started_at: Instant | None
    completed_at: Instant | None
    is_paused: bool
    paused_at: Instant | None
    paused_by: str | None
    pause_note: str | None
    resume_at: Instant | None
    cancelled_at: Instant | None
    error_message: str | None
    current_retry_count: int
    max_retries: int
    retry_backoff_seconds: float
    origin: Literal["code", "api"]
    version: int
    orphaned: bool
    conflict: Annotated[
        list[DeclarerJson],
        Meta(description="The running applications that declare it with different code; empty without a conflict."),
    ]
    stop: Annotated[str, Meta(description="What a timeout or a cancel does to a running attempt.")]
    policy: dict[str, Any]
    overrides: dict[str, Any]
    occurrences: list[OccurrenceJson]
    live: LiveJson
    stats: CountsJson
    metadata: dict[str, Any]
    owner: str | None
    tags: list[str]
    created_at: Instant
    updated_at: Instant


class CreatedJobJson(JobJson):
    execution_id: Annotated[str | None, Meta(description="Of a job that runs at once.")]


def job_json(view: JobView, *, unmasked: bool = False) -> dict[str, Any]:
    """`unmasked` shows the addresses that the job pings in full, for users who may change the job."""
    spec, closing = job_of(view).spec, view.closing
    policy: dict[str, Any] = msgspec.to_builtins(
        {name: getattr(spec, name) for name in policy_fields(tenants=spec.tenants)}
        | {"trigger_role": view.trigger_role}
    )
    return rendered(
        JobJson,
        view,
        id=view.name,
        **_interval(spec),
        closed_until=closing.until if closing else None,
        closed_by=closing.by if closing else None,
        max_retries=view.max_attempts - 1,
        retry_backoff_seconds=view.retry.initial,
        stop=stop_text(spec.isolation),
        policy=policy if unmasked else masked(policy),
        overrides=mask_fields(view.overrides if unmasked else masked(view.overrides), view.secret),
        occurrences=[occurrence_json(each) for each in view.occurrences],
        live=_live_json(view.live),
        stats=rendered(CountsJson, view.stats),
        conflict=[rendered(DeclarerJson, each) for each in view.conflict],
    )


def _interval(spec: JobSpec) -> dict[str, Any]:
    """The interval pair as it was given; null for schedules of other kinds."""
    trigger = None if spec.trigger is None else decode_trigger(spec.trigger)
    count, unit = interval_pair(trigger, spec.interval_type) or (None, None)
    return {"interval_minutes": count, "interval_type": unit}


def occurrence_json(occurrence: OccurrenceView) -> dict[str, Any]:
    return rendered(OccurrenceJson, occurrence)


def _live_json(live: LiveCounts) -> dict[str, Any]:
    return rendered(LiveJson, live)


def job_stats_json(view: JobView) -> dict[str, Any]:
    """What became of all executions of a job, when it last ran and when it runs next."""
    return rendered(JobStatsJson, view.stats, last_execution_at=view.last_run_at, next_scheduled_at=view.next_run_at)


class SysJobJson(JsonForm):
    id: str
    schedule: Annotated[str | None, Meta(description="Cron, `@every 30m` or `@once ...`; null: on demand.")]
    description: str
    status: JobState
    next_run_at: Instant | None
    last_run_at: Instant | None
    last_status: State | None
    total_executions: int
    successful_runs: int
    partial_runs: int
    failed_runs: int
    cancelled_runs: int
    skipped_runs: int


def sys_job_json(view: JobView) -> dict[str, Any]:
    """One job in the overview for operations teams."""
    stats: JobTotals = view.stats
    return rendered(
        SysJobJson,
        view,
        id=view.name,
        description=view.description_of_schedule,
        status=view.state,
        total_executions=stats.total,
        successful_runs=stats.completed,
        partial_runs=stats.partial,
        failed_runs=stats.failed,
        cancelled_runs=stats.cancelled,
        skipped_runs=stats.skipped,
    )


class ReasonJson(JsonForm):
    code: str
    message: str
    blocking: bool
    details: dict[str, Any]


class WhyJson(JsonForm):
    job: str
    status: JobState
    runnable: Annotated[bool, Meta(description="Whether nothing prevents it from running.")]
    reasons: list[ReasonJson]


def why_json(view: JobView, reasons: Sequence[Reason]) -> dict[str, Any]:
    """Why a job is not running; blocking reasons come first."""
    return rendered(
        WhyJson,
        view,
        job=view.name,
        status=view.state,
        runnable=not any(reason.blocking for reason in reasons),
        reasons=[rendered(ReasonJson, reason) for reason in reasons],
    )


# --- executions -----------------------------------------------------------------------------------------------


class WindowJson(JsonForm):
    begin: Instant
    end: Instant


class AttemptJson(
    JsonForm,
    rename={
        "error": "error_message",
        "traceback": "stack_trace",
        "cpu_ms": "cpu_time_ms",
        "memory_mb": "memory_peak_mb",
    },
):
    number: int
    worker: str
    end: str
    started_at: Instant
    ended_at: Instant
    duration_ms: float
    error: str | None
    error_group: str | None
    traceback: str | None
    cpu_ms: float | None
    memory_mb: float | None
    overran: Annotated[
        str | None, Meta(description="timeout or cancel: the attempt went on although it was asked to stop.")
    ]
    reason: Annotated[
        str | None,
        Meta(
            description="Why it failed, if not by an error of the handler: out_of_memory, cpu_limit, exit_code, signal."
        ),
    ]


PROGRESS = "`done` and `updated_at`; where known `total`, `message`, `percent`, `rate` (per second) and `eta_seconds`."


class ExecutionJson(
    JsonForm,
    forbid_unknown_fields=False,
    rename={"state": "status", "number": "execution_number", "error": "error_message"},
):
    """Counters stand under `counters` and also at the top level."""

    id: str
    job: str
    job_id: Annotated[str, Meta(description="The id of the job, which is its name.")]
    handler: str
    queue: str
    state: State
    reason: str | None
    trigger: str
    triggered_by: str
    trace_id: str
    number: int | None
    params: dict[str, Any]
    window: WindowJson | None
    tenant: str | None
    share: Annotated[
        str | None, Meta(description="The share by which executions take turns in their queue; usually the tenant.")
    ]
    waits_for: Annotated[str | None, Meta(description="The key of the limit that has no room for it.")]
    parent_id: str | None
    retry_of: str | None
    flow_id: Annotated[str, Meta(description="The execution from which it follows, through any number of jobs.")]
    priority: int
    attempt: int
    retry_attempt: int
    max_attempts: int
    worker: str | None
    created_at: Instant
    start_at: Instant
    scheduled_at: Instant | None
    started_at: Instant | None
    finished_at: Instant | None
    completed_at: Annotated[Instant | None, Meta(description="The same as `finished_at`, however it ended.")]
    cancel_requested_at: Instant | None
    timeout_at: Annotated[Instant | None, Meta(description="When the attempt that runs should end at the latest.")]
    run_timeout_at: Annotated[Instant | None, Meta(description="When its `run_timeout` is up.")]
    duration_ms: float | None
    error: str | None
    error_group: Annotated[str | None, Meta(description="The id of the error group that its error belongs to.")]
    search_keys: Annotated[dict[str, list[str]], Meta(description="The values by which it is found, by name.")]
    stack_trace: str | None
    cpu_time_ms: float | None
    memory_peak_mb: float | None
    progress: Annotated[dict[str, Any] | None, Meta(description=PROGRESS)]
    logs_dropped: Annotated[int, Meta(description="Log lines that were not kept: the log is bounded.")]
    counters: dict[str, float]
    result: Any
    metadata: dict[str, Any]
    edited: Annotated[dict[str, Any], Meta(description="Parameters that differ from `retry_of`: `before`, `after`.")]
    attempts: list[AttemptJson]


LIVE_FIELDS = (
    *("id", "job", "status", "attempt", "worker", "started_at", "finished_at", "progress", "counters"),
    *("logs_dropped", "reason", "error_message", "cancel_requested_at"),
)


def execution_live_json(execution: Execution) -> dict[str, Any]:
    """The fields that change while it runs."""
    fields = execution_json(execution)
    return {name: fields[name] for name in LIVE_FIELDS}


def execution_json(execution: Execution) -> dict[str, Any]:
    """Counters stand under `counters` and at the top level, where they never hide a field of the execution."""
    attempts = [attempt_json(each) for each in execution.attempts]
    last = attempts[-1] if attempts else {}
    counters, window = execution.counters, execution.window
    fields = rendered(
        ExecutionJson,
        execution,
        job_id=execution.job,
        completed_at=execution.finished_at,
        window=None if window is None else window_json(window),
        retry_attempt=execution.attempt - 1,
        stack_trace=last.get("stack_trace"),
        cpu_time_ms=last.get("cpu_time_ms"),
        memory_peak_mb=last.get("memory_peak_mb"),
        counters=counters,
        attempts=attempts,
    )
    return {**counters, **fields} if counters else fields


class StartedJson(JsonForm):
    """The answer to every command that makes an execution: the job as it is then, and the execution."""

    id: Annotated[str, Meta(description="The id of the job.")]
    status: Annotated[JobState, Meta(description="The state of the job.")]
    current_retry_count: Annotated[int, Meta(description="How often its newest execution has failed: 0 for a new one.")]
    execution_id: str
    execution: ExecutionJson


def started_json(view: JobView, execution: Execution) -> dict[str, Any]:
    return {
        "id": view.name,
        "status": view.state.value,
        "current_retry_count": view.current_retry_count,
        "execution_id": execution.id,
        "execution": execution_json(execution),
    }


def attempt_json(attempt: Attempt) -> dict[str, Any]:
    """CPU time is rounded to the microsecond: what it says beyond that is noise."""
    return rendered(AttemptJson, attempt, cpu_ms=None if attempt.cpu_ms is None else round(attempt.cpu_ms, 3))


class TenantRunJson(JsonForm, rename={"error": "error_message"}):
    tenant: str
    execution_id: str
    status: State
    attempts: Annotated[int, Meta(description="Attempts that have started.")]
    max_attempts: int
    started_at: Instant | None
    finished_at: Instant | None
    next_try_at: Instant | None
    duration_ms: float | None
    error: str | None
    reason: str | None


def tenant_json(run: TenantRun) -> dict[str, Any]:
    return rendered(TenantRunJson, run)


class LogEntryJson(JsonForm):
    number: int
    at: Instant
    level: str
    logger: str
    message: str


def log_json(number: int, line: LogEntry) -> dict[str, Any]:
    return rendered(LogEntryJson, line, number=number)


# --- processes ------------------------------------------------------------------------------------------------


class WorkerJson(JsonForm):
    id: str
    host: str
    pid: int
    version: Annotated[str, Meta(description="The release of Mainspring.")]
    application: str
    release: Annotated[str, Meta(description="The release of the application.")]
    roles: list[str]
    queues: list[str] | None
    handlers: list[str]
    concurrency: int
    running: int
    draining: Annotated[bool, Meta(description="An operator drains it: it takes no more work.")]
    lease: float | None
    started_at: Instant
    last_heartbeat_at: Instant


def worker_json(worker: WorkerView) -> dict[str, Any]:
    return rendered(WorkerJson, worker)


class LockJson(JsonForm):
    kind: Annotated[
        Literal["lock", "overlap", "unique"], Meta(description="A named lock, or a key that a live execution holds.")
    ]
    name: str
    owner: str | None
    token: int
    acquired_at: Instant
    expires_at: Instant | None
    job: str | None
    execution_id: str | None
    status: State | None


def lock_json(lock: LockView) -> dict[str, Any]:
    return rendered(LockJson, lock)


class HandlerJson(JsonForm):
    name: str
    known_here: bool
    signature: str | None
    required: list[str]
    isolation: Annotated[str | None, Meta(description="async (on the event loop), thread or process.")]
    stop: Annotated[str | None, Meta(description="What a timeout or a cancel does to a running attempt.")]
    workers: list[str]
    paused: Annotated[bool, Meta(description="An operator paused it: no process begins an execution of it.")]


def handler_json(name: str, handler: Handler | None, workers: list[str], *, paused: bool = False) -> dict[str, Any]:
    """`handler` is None for code that only other processes have; `workers` are the processes that run it now."""
    return rendered(
        HandlerJson,
        handler,
        name=name,
        known_here=handler is not None,
        signature=None if handler is None else str(handler.signature),
        required=[] if handler is None else handler.signature.required,
        isolation=None if handler is None else handler.isolation,
        stop=None if handler is None else stop_text(handler.isolation if handler.isolation != "async" else None),
        workers=workers,
        paused=paused,
    )


class JobsByStateJson(JsonForm):
    total: int
    pending: int
    scheduled: int
    running: int
    paused: int
    completed: int
    failed: int
    cancelled: int


class ExecutionTotalsJson(JsonForm):
    """`total` counts those that have ended, without skipped ones; `pending`, `running` and `waiting` have not ended."""

    total: int
    completed: int
    partial: int
    failed: int
    cancelled: int
    skipped: int
    pending: int
    running: int
    waiting: int
    average_duration_ms: float | None
    success_rate: Annotated[
        float | None, Meta(description="From 0 to 1: the completed ones among those completed, partial and failed.")
    ]


class TotalsJson(JsonForm):
    jobs: JobsByStateJson
    executions: ExecutionTotalsJson
    stale_locks_cleared: int
    last_check_at: Instant | None
    last_metrics_update: Instant


def totals_json(totals: Totals) -> dict[str, Any]:
    return rendered(
        TotalsJson,
        totals,
        jobs={"total": sum(totals.jobs.values()), **totals.jobs},
        executions=rendered(ExecutionTotalsJson, totals, total=totals.executions, completed=totals.successful),
        last_metrics_update=totals.updated_at,
    )


# --- audit and missed runs ------------------------------------------------------------------------------------


class ChangeJson(JsonForm):
    """`kind` is `deploy`, `start`, `stop`, `created` or the action of an audit record. `unread` ends a list for which
    too many records would have to be read."""

    at: Instant
    kind: str
    what: str
    by: str | None
    target: str | None
    application: str | None
    release: str | None
    processes: int
    jobs: Annotated[list[str], Meta(description="The first of the jobs that it concerns.")]
    job_count: int
    before: Any
    after: Any


def change_json(change: RecordedChange, *, unmasked: bool = False) -> dict[str, Any]:
    before, after = (
        value if unmasked else masked_record(change.target or "", value) for value in (change.before, change.after)
    )
    return rendered(ChangeJson, change, before=before, after=after)


class AuditJson(JsonForm):
    id: str
    at: Instant
    actor: str
    action: str
    target: str
    before: Any
    after: Any
    request_id: str | None


def audit_json(audit: AuditRecord, *, unmasked: bool = False) -> dict[str, Any]:
    before, after = (value if unmasked else masked_record(audit.target, value) for value in (audit.before, audit.after))
    return rendered(AuditJson, audit, before=before, after=after)


class MissedRunsJson(JsonForm, rename={"first_at": "first_missed", "last_at": "last_missed"}):
    job: str
    first_at: Instant
    last_at: Instant
    count: int
    exact: Annotated[bool, Meta(description="False when there were too many to count.")]
    reason: Annotated[
        MissedReason | None, Meta(description="As known at the time of the report; null in older entries.")
    ]
    reported_at: Instant


def missed_json(runs: MissedRuns) -> dict[str, Any]:
    """A run of missed ticks of one job."""
    return rendered(MissedRunsJson, runs)


# --- calendars and templates ----------------------------------------------------------------------------------


class CalendarEntryJson(JsonForm):
    entry: str
    label: str


class CalendarSummaryJson(JsonForm, rename={"by": "updated_by"}):
    name: str
    origin: Literal["code", "operator"]
    declared: Annotated[bool, Meta(description="Whether code declares a calendar of this name.")]
    by: str
    updated_at: Instant
    count: Annotated[int, Meta(description="The number of entries.")]


class CalendarJson(CalendarSummaryJson):
    entries: list[CalendarEntryJson]


def calendar_json(view: CalendarView) -> dict[str, Any]:
    entries = [{"entry": block.text(), "label": block.label} for block in view.calendar.blocks]
    return rendered(CalendarJson, view, entries=entries, count=len(entries))


class TemplateJson(JsonForm, rename={"by": "updated_by"}):
    name: str
    handler: str
    description: str
    schedule: str | None
    schedule_description: str | None
    interval_minutes: int | None
    interval_type: str | None
    timezone: str | None
    params: dict[str, Any]
    metadata: dict[str, Any]
    options: Annotated[
        dict[str, Any],
        Meta(description="The other fields that the template sets, in the form in which a job stores them."),
    ]
    version: int
    by: str
    created_at: Instant
    updated_at: Instant


_OWN_FIELDS = frozenset({"trigger", "interval_type", "tz", "params", "metadata", "description"})


def template_json(template: Template, *, unmasked: bool = False) -> dict[str, Any]:
    """`unmasked` shows the addresses that its jobs ping in full, for users who may change the template."""
    fields, trigger = template.fields if unmasked else masked(template.fields), template.trigger
    return rendered(
        TemplateJson,
        template,
        **_interval(template.spec),
        description=fields.get("description", ""),
        schedule=None if trigger is None else trigger.expression(),
        schedule_description=None if trigger is None else trigger.describe(),
        timezone=fields.get("tz"),
        params=mask(fields.get("params", {}), template.secret),
        metadata=fields.get("metadata", {}),
        options={name: value for name, value in fields.items() if name not in _OWN_FIELDS},
    )


# --- bulk -----------------------------------------------------------------------------------------------------


def bulk_json(result: BulkResult, item_json: Callable[[BulkItem], dict[str, Any]] | None = None) -> dict[str, Any]:
    """The command line shows an error as text, the HTTP interface as an object (`item_json`)."""
    return {
        "command": result.command,
        "matched": len(result.items),
        "done": result.done,
        "refused": result.refused,
        "results": [(item_json or _item_json)(item) for item in result.items],
    }


def _item_json(item: BulkItem) -> dict[str, Any]:
    return {
        "id": item.id,
        "done": item.done,
        "status": item.status,
        "execution_id": item.execution_id,
        "error": None if item.error is None else str(item.error),
    }


# --- windows and backfills ------------------------------------------------------------------------------------


class WindowStatusJson(JsonForm, rename={"last_state": "last_status"}):
    begin: Instant
    end: Instant
    state: Literal["done", "failed", "missing", "running"]
    execution_id: str | None
    last_state: str | None
    runs: int
    finished_at: Instant | None


def windows_json(job: str, windows: Windows) -> dict[str, Any]:
    return {"job": job, "counts": windows.counts, "windows": [window_status_json(each) for each in windows]}


def window_status_json(status: WindowStatus) -> dict[str, Any]:
    return rendered(WindowStatusJson, status, begin=status.window.begin, end=status.window.end)


def window_json(window: Window) -> dict[str, Any]:
    """By the clock of the window's own zone, which is that of its job."""
    return rendered(WindowJson, window, begin=window.begin, end=window.end)


class BackfillJson(JsonForm, forbid_unknown_fields=False, rename={"state": "status", "window": "range"}):
    """How far a backfill is; a dry run also lists its `windows`."""

    id: str | None
    job: str
    state: str
    reason: str | None
    window: WindowJson
    order: str
    only: str
    force: bool
    concurrency: int
    pace: float | None
    params: dict[str, Any] | None
    note: str | None
    total: int
    ended: int
    running: int
    completed: int
    failed: int
    cancelled: int
    skipped: int
    held: int
    already_done: int
    already_running: int
    created_at: Instant
    created_by: str
    started_at: Instant | None
    finished_at: Instant | None


def backfill_json(backfill: Backfill) -> dict[str, Any]:
    fields = rendered(BackfillJson, backfill, id=backfill.id or None, window=window_json(backfill.window))
    if backfill.state == "planned":
        fields["windows"] = [window_json(window) for window in backfill.windows]
    return fields


# --- bulk actions ---------------------------------------------------------------------------------------------


class BulkActionJson(JsonForm, rename={"state": "status"}):
    """How far a bulk action is."""

    id: str
    action: str
    target: str
    state: str
    reason: Annotated[str | None, Meta(description="Why the action was stopped or aborted.")]
    filter: Annotated[dict[str, Any] | None, Meta(description="Null if its items were named.")]
    params: Annotated[dict[str, Any], Meta(description="The parameters that an edit changes.")]
    remove: Annotated[list[str], Meta(description="The parameters that an edit removes.")]
    note: str | None
    total: Annotated[int, Meta(description="The items that it found when it began.")]
    total_is_exact: Annotated[bool, Meta(description="False if there are at least this many.")]
    handled: int
    done: int
    refused: int
    skipped: Annotated[
        int,
        Meta(description="Left out of a retry: retried before, or run again together with their parents."),
    ]
    skips: Annotated[
        dict[str, int], Meta(description="The skipped ones by their code: `already_retried` or `with_parent`.")
    ]
    errors: Annotated[dict[str, int], Meta(description="The refused ones by the code of their error.")]
    pace: Annotated[float | None, Meta(description="The maximum rate, in items per second.")]
    probe: int
    probed: Annotated[list[str], Meta(description="The executions of its probe.")]
    stopped_by: Annotated[str | None, Meta(description="The execution of its probe that stopped it.")]
    created_at: Instant
    created_by: str
    finished_at: Instant | None


def bulk_action_json(bulk: BulkAction) -> dict[str, Any]:
    return rendered(BulkActionJson, bulk, filter=None if bulk.ids else bulk.filter)


class BulkActionItemJson(JsonForm):
    id: str
    status: Annotated[str, Meta(description="`planned`, `done`, `refused` or `skipped`.")]
    outcome: Annotated[
        str, Meta(description="The outcome in one word: `retried`, `cancelled`, `paused`; or its status.")
    ]
    execution_id: Annotated[
        str | None, Meta(description="The execution that was created; for a skipped one, its earlier retry.")
    ]
    now: Annotated[
        str | None,
        Meta(
            description="The present status of the execution that was made (`gone` if it was deleted), or the status"
            " that the item got; of a dry run, what would become of it."
        ),
    ]
    code: Annotated[str | None, Meta(description="The code of the refusal, or of the reason for the skip.")]
    error: Annotated[str | None, Meta(description="Why it was refused or skipped.")]


def bulk_item_json(item: BulkItemRow, action: str) -> dict[str, Any]:
    return rendered(BulkActionItemJson, item, outcome=outcome(action, item))


class BulkPreviewJson(JsonForm):
    """What a bulk action would do."""

    action: str
    target: str
    filter: dict[str, Any]
    total: int
    total_is_exact: bool
    sample: list[BulkActionItemJson]


def bulk_preview_json(preview: BulkPreview) -> dict[str, Any]:
    return rendered(BulkPreviewJson, preview, sample=[bulk_item_json(item, preview.action) for item in preview.sample])
