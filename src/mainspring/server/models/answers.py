"""What answers look like, for the OpenAPI document. `core.render.entities` makes them; tests compare the two."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ...model.execution import State
from ...model.job import JobState

Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Total = Annotated[int | Literal["10000+"], Field(description='Exact up to 10000, then "10000+".')]


class Output(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorBody(Output):
    code: Annotated[str, Field(description="For programs.")]
    message: Annotated[str, Field(description="For people.")]
    request_id: str | None = None
    details: dict[str, Any] | list[Any] | None = None


class Error(Output):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"error": {"code": "not_found", "message": "no job named 'x'", "request_id": "4f6a"}}]
        }
    )

    error: ErrorBody


class Live(Output):
    pending: int
    running: int
    waiting: int


class Counts(Output):
    total_executions: int
    successful_runs: int
    partial_runs: int
    failed_runs: int
    cancelled_runs: int
    skipped_runs: int
    average_duration_ms: float | None
    success_rate: float | None


class JobStats(Counts):
    last_execution_at: Instant | None
    next_scheduled_at: Instant | None


class Job(Output):
    id: str
    name: str
    handler: str
    description: str
    queue: str
    params: dict[str, Any]
    status: JobState
    last_status: State | None
    schedule: str | None
    schedule_description: str
    schedule_enabled: bool
    interval_minutes: int | None
    interval_type: str | None
    next_run_at: Instant | None
    after: Annotated[list[str], Field(description="The jobs that it comes after.")]
    dependents: Annotated[list[str], Field(description="The jobs that come after it.")]
    last_run_at: Instant | None
    started_at: Instant | None
    completed_at: Instant | None
    hours: Annotated[str | None, Field(description="When it may run, in words.")]
    closed_until: Instant | None
    closed_by: str | None
    occurrences: list[dict[str, Any]]
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
    policy: dict[str, Any]
    overrides: dict[str, Any]
    live: Live
    stats: Counts
    metadata: dict[str, Any]
    created_at: Instant
    updated_at: Instant


class CreatedJob(Job):
    execution_id: Annotated[str | None, Field(description="Of a job that runs at once.")]


class Page(Output):
    total: Total
    limit: int
    offset: int
    next_cursor: str | None


class JobPage(Page):
    items: list[Job]


class SysJob(Output):
    id: str
    schedule: Annotated[str | None, Field(description="Cron, `@every 30m` or `@once ...`; null: on demand.")]
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


class Started(Output):
    execution_id: str
    job: str
    status: State


class Attempt(Output):
    number: int
    worker: str
    end: str
    started_at: Instant
    ended_at: Instant
    duration_ms: float
    error_message: str | None
    stack_trace: str | None
    cpu_time_ms: float | None
    memory_peak_mb: float | None


class Window(Output):
    begin: Instant
    end: Instant


class Execution(Output):
    """Counters stand under `counters` and also at the top level."""

    model_config = ConfigDict(extra="allow")

    id: str
    job: str
    handler: str
    queue: str
    status: State
    reason: str | None
    trigger: str
    triggered_by: str
    trace_id: str
    execution_number: int | None
    params: dict[str, Any]
    window: Window | None
    tenant: str | None
    share: Annotated[str | None, Field(description="Who takes turns in its queue: as a rule the tenant.")]
    waits_for: Annotated[str | None, Field(description="The key of the limit that has no room for it.")]
    parent_id: str | None
    retry_of: str | None
    flow_id: Annotated[str, Field(description="The execution from which it follows, through any number of jobs.")]
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
    cancel_requested_at: Instant | None
    duration_ms: float | None
    error_message: str | None
    stack_trace: str | None
    cpu_time_ms: float | None
    memory_peak_mb: float | None
    progress: dict[str, Any] | None
    counters: dict[str, float]
    result: Any
    metadata: dict[str, Any]
    attempts: list[Attempt]


class ExecutionPage(Page):
    items: list[Execution]


class TenantRun(Output):
    tenant: str
    execution_id: str
    status: State
    attempts: Annotated[int, Field(description="Tries that were begun.")]
    max_attempts: int
    started_at: Instant | None
    finished_at: Instant | None
    next_try_at: Instant | None
    duration_ms: float | None
    error_message: str | None
    reason: str | None


class TenantPage(Page):
    items: list[TenantRun]
    counts: Annotated[dict[str, int], Field(description="How many tenants are in each state.")]


class LogLine(Output):
    number: int
    at: Instant
    level: str
    message: str


class Logs(Output):
    execution_id: str
    items: list[LogLine]
    next_after: Annotated[int, Field(description="Where the next lines begin.")]


class Progress(Output):
    execution_id: str
    status: State
    progress: dict[str, Any] | None
    counters: dict[str, float]


class Why(Output):
    class Item(Output):
        code: str
        message: str
        blocking: bool
        details: dict[str, Any]

    job: str
    status: JobState
    runnable: Annotated[bool, Field(description="Whether nothing stands in its way.")]
    reasons: list[Item]


class Metrics(Output):
    jobs: dict[str, int]
    total_jobs: int
    executions: dict[str, int]
    total_executions: int
    successful_runs: int
    failed_runs: int
    average_duration_ms: float | None
    success_rate: float | None
    stale_locks_cleared: int
    last_check_at: Instant | None
    last_metrics_update: Instant


class Worker(Output):
    id: str
    host: str
    pid: int
    version: str
    roles: list[str]
    queues: list[str] | None
    handlers: list[str]
    concurrency: int
    running: int
    lease: float | None
    started_at: Instant
    last_heartbeat_at: Instant


class Handler(Output):
    name: str
    known_here: bool
    signature: str | None
    required: list[str]
    isolation: str | None
    workers: list[str]


class Lock(Output):
    name: str
    owner: str
    token: int
    acquired_at: Instant
    expires_at: Instant


class Audit(Output):
    id: str
    at: Instant
    actor: str
    action: str
    target: str
    before: Any
    after: Any
    request_id: str | None


class BulkResult(Output):
    id: str
    done: bool
    execution_id: str | None = None
    status: str | None = None
    error: ErrorBody | None = None


class Bulk(Output):
    command: str
    matched: int
    done: int
    refused: int
    more: Annotated[bool, Field(description="The filter finds more than one request handles.")]
    next: Annotated[str | None, Field(description="Ask again with this as `after`: it goes on there.")]
    results: list[BulkResult]


class Backfill(Output):
    """Its numbers of windows; `windows` are listed by a dry run only."""

    model_config = ConfigDict(extra="allow")

    id: str | None
    job: str
    status: str
    reason: str | None
    total: int


class Health(Output):
    status: Literal["ok", "ready", "unavailable"]
