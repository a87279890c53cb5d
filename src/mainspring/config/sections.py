"""The settings, section by section: each with its type, its rule, its meaning and its default. For the security of the
HTTP interface see `security`."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from ..core.declaring.job_specs import JobDefaults
from ..core.declaring.options import OPTIONS
from ..model import defaults
from ..model.policies import Isolation, Retry
from ..model.values.reading import duration, identifier, size
from ..model.windows import days_ago
from .rules import (
    DAY,
    Setting,
    database,
    each,
    host_address,
    module_and_name,
    names,
    number,
    of_option,
    one_of,
    proxy_server,
    queue_names,
    redis_server,
    seconds,
    smtp_server,
    switch,
    switch_or_auto,
    text,
    zone_of,
)

Auto: TypeAlias = bool | Literal["auto"] | str
ROLES = ("scheduler", "worker", "api")


class ProcessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What this process is, and which database it uses."""

    database_url: Annotated[
        str,
        Setting(
            database,
            "the database: `sqlite:///file.db`, `postgresql://...`, `mongodb://...` or `memory://`",
            secret=True,
        ),
    ] = "sqlite:///mainspring.db"
    import_path: Annotated[
        str | None,
        Setting(
            module_and_name,
            "how child processes find the application: `MODULE:APP`, where `APP` may be a function that returns it; by "
            "default, the name that it has in its module",
        ),
    ] = None
    application: Annotated[
        str,
        Setting(
            text,
            "the name of this application among others on the same database; by default, the module that creates it",
        ),
    ] = ""
    enabled: Annotated[bool, Setting(switch, "false: nothing starts in this process")] = True
    roles: Annotated[
        tuple[str, ...], Setting(each(one_of(*ROLES)), "what this process does: any of `scheduler`, `worker` and `api`")
    ] = ("scheduler", "worker")
    timezone: Annotated[
        str, Setting(zone_of, "the time zone of jobs that do not set one", ("date_range", "timezone"))
    ] = "UTC"
    release: Annotated[
        str, Setting(text, "the release of your code, recorded with the jobs that this process declares")
    ] = ""
    prune: Annotated[
        bool,
        Setting(
            switch,
            "true: a process that starts removes jobs that were declared by code and that no running process declares",
        ),
    ] = False
    auto_migrate: Annotated[
        bool,
        Setting(
            switch,
            "false: a process that starts only checks the schema of the database; `mainspring db migrate` changes it",
        ),
    ] = True
    uvloop: Annotated[
        Auto,
        Setting(
            switch_or_auto,
            "the event loop of `mainspring run` and `app.run`: `auto` uses uvloop if it is installed",
        ),
    ] = "auto"


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How this process takes work, keeps its leases and stops. Durations are seconds."""

    queues: Annotated[
        tuple[str, ...] | None, Setting(queue_names, "the queues that this worker serves; by default, all")
    ] = None
    exclude: Annotated[tuple[str, ...], Setting(names, "handlers whose executions this worker does not claim")] = ()
    concurrency: Annotated[int, Setting(number(1, 1000), "how many executions one worker runs at once")] = (
        defaults.CONCURRENCY
    )
    poll_interval: Annotated[float, Setting(seconds(0.01, DAY), "how often to look for work if no wake-up arrives")] = (
        defaults.POLL_INTERVAL
    )
    lease: Annotated[
        float,
        Setting(seconds(0.1, DAY), "how long a worker owns an execution without sending a heartbeat"),
    ] = defaults.LEASE
    heartbeat: Annotated[
        float,
        Setting(
            seconds(0.01, DAY),
            "how often a worker renews its leases; at most half the lease, and by default a third of it",
        ),
    ] = defaults.HEARTBEAT
    rescue_interval: Annotated[float, Setting(seconds(0.01, DAY), "how often to look for expired leases")] = (
        defaults.RESCUE_INTERVAL
    )
    fold_interval: Annotated[
        float,
        Setting(seconds(0.01, DAY), "how often to finish interrupted follow-ups and to add up statistics"),
    ] = defaults.FOLD_INTERVAL
    retention_interval: Annotated[float, Setting(seconds(0.01, DAY), "how often to delete old history")] = (
        defaults.RETENTION_INTERVAL
    )
    wakeups: Annotated[bool, Setting(switch, "false: the process finds work by polling only")] = True
    start_timeout: Annotated[
        float,
        Setting(
            seconds(0.0, DAY),
            "how long a process that starts waits for a database that it cannot reach yet; 0: not at all",
        ),
    ] = defaults.START_TIMEOUT
    stop_timeout: Annotated[float, Setting(seconds(0.1, DAY), "how long the stop of a process may take in all")] = (
        defaults.STOP_TIMEOUT
    )
    stop_reserve: Annotated[
        float,
        Setting(
            seconds(0.0, DAY),
            "the end of `stop_timeout`, reserved for cancelling handlers and handing back executions; a shorter stop "
            "reserves at most half of its time",
        ),
    ] = defaults.STOP_RESERVE
    payload_limit: Annotated[
        int,
        Setting(number(1024, 64 * 1024 * 1024), "the maximum size of the parameters of an execution, in bytes of JSON"),
    ] = defaults.PAYLOAD_LIMIT


class IsolationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The child processes of a worker, for jobs with `isolation="process"`."""

    isolation_cancel_grace: Annotated[
        float,
        Setting(
            seconds(0.0, DAY),
            "how long a handler in a child process gets to stop by itself before SIGTERM interrupts it",
        ),
    ] = defaults.ISOLATION_CANCEL_GRACE
    isolation_term_grace: Annotated[
        float,
        Setting(seconds(0.0, DAY), "how long a handler in a child process gets from SIGTERM to SIGKILL"),
    ] = defaults.ISOLATION_TERM_GRACE
    isolation_recycle_executions: Annotated[
        int, Setting(number(1, 1_000_000_000), "the number of executions after which a child process is replaced")
    ] = defaults.ISOLATION_RECYCLE_EXECUTIONS
    isolation_recycle_age: Annotated[
        float, Setting(seconds(1.0, 365 * DAY), "the age at which a child process is replaced")
    ] = defaults.ISOLATION_RECYCLE_AGE
    isolation_recycle_growth: Annotated[
        int,
        Setting(size, "a child process whose memory has grown by this many bytes is replaced"),
    ] = defaults.ISOLATION_RECYCLE_GROWTH


class ContextSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What handlers see of this process."""

    username: Annotated[
        str, Setting(text, "`ctx.username` of executions that no user started", ("context", "username"))
    ] = defaults.USERNAME
    channel: Annotated[
        str | None,
        Setting(
            text,
            "what handlers read as `ctx.channel`: where their work comes from; by default, the trigger of the "
            "execution",
            ("context", "channel"),
        ),
    ] = None


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    log_format: Annotated[
        str,
        Setting(
            one_of("console", "json", case=str.lower), "the format of the log of `mainspring run`: `console` or `json`"
        ),
    ] = "console"
    log_level: Annotated[
        str,
        Setting(
            one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", case=str.upper),
            "the lowest level that `mainspring run` logs",
        ),
    ] = "INFO"
    tracing: Annotated[
        Auto,
        Setting(
            switch_or_auto,
            "whether to record OpenTelemetry spans: `auto` records them if the application has set a tracer provider "
            "before the start",
        ),
    ] = "auto"


class RedisSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Locks, and the server that may keep them."""

    locks: Annotated[
        str,
        Setting(one_of("store", "redis"), "where locks are kept: in the `store` or on `redis`", ("lock", "backend")),
    ] = "store"
    redis_url: Annotated[
        str | None,
        Setting(
            redis_server,
            "the Redis or Valkey server for locks or wake-ups: `redis://host:6379/0?prefix=shop`",
            ("lock", "redis_url"),
            secret=True,
        ),
    ] = None
    redis_wakeups: Annotated[bool, Setting(switch, "true: processes also wake each other through `redis_url`")] = False


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    host: Annotated[str, Setting(host_address, "the address on which a process with the role `api` listens")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Setting(number(0, 65_535), "the port on which it listens; 0: any free port")] = 8700
    dashboard: Annotated[bool, Setting(switch, "false: the HTTP interface has no dashboard")] = True
    api_handler: Annotated[
        str | None,
        Setting(
            identifier,
            "the handler of jobs created over HTTP that do not name one; unknown fields of the request then become its "
            "parameters",
        ),
    ] = None


class MonitoringSettings(msgspec.Struct, frozen=True, kw_only=True):
    metrics_port: Annotated[
        int | None,
        Setting(
            number(0, 65_535),
            "a port on `host` on which the process serves `/metrics`, `/healthz` and `/readyz`, whatever its roles; "
            "0: any free port",
        ),
    ] = None
    metrics_jobs: Annotated[int, Setting(number(1, 100_000), "how many jobs have separate metrics")] = 1_000
    private_urls: Annotated[
        bool, Setting(switch, "true: pings and webhooks may go to this machine and to private networks")
    ] = False
    egress_proxy: Annotated[
        str | None,
        Setting(
            proxy_server,
            "the HTTP proxy through which pings and webhooks are sent: `http://user@proxy.internal:3128`",
            secret=True,
        ),
    ] = None
    smtp_url: Annotated[
        str | None,
        Setting(
            smtp_server,
            "the mail server for webhooks of the format `email`: `smtp://user@host:587?from=jobs@example.com`",
            secret=True,
        ),
    ] = None


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults of job options; None leaves them to the table of options (`core/declaring/options.py`)."""

    retry_max_attempts: Annotated[
        int | None,
        Setting(
            of_option("max_attempts"),
            f"the `max_attempts` of jobs that do not set it; by default, {defaults.SCHEDULED_ATTEMPTS} with a "
            f"schedule, {defaults.ENQUEUED_ATTEMPTS} on demand, {defaults.API_RETRIES + 1} if created over HTTP",
            ("retry", "max_attempts"),
        ),
    ] = None
    retry_policy: Annotated[
        Retry | None,
        Setting(
            of_option("retry"),
            "the `retry` of jobs that do not set it, the waits between attempts: `queue`, `tenant`, `patient` or a "
            "table",
            ("retry", "policy"),
        ),
    ] = None
    run_timeout: Annotated[
        float | None,
        Setting(
            of_option("run_timeout"),
            "the `run_timeout` of jobs that do not set it: how long a run may take in all, with its tenants and "
            "retries; by default, any time",
            ("lock", "timeout"),
        ),
    ] = None
    default_isolation: Annotated[
        Isolation,
        Setting(
            of_option("isolation"),
            "the `isolation` of plain functions that do not set it: run in a `thread`, or in a `process`, which a "
            "timeout can stop",
        ),
    ] = "thread"
    date_range_type: Annotated[
        Literal["yesterday", "today", "custom"] | None,
        Setting(
            one_of("yesterday", "today", "custom", case=str.lower),
            "the `window` of jobs that do not set it: `yesterday`, `today`, or `custom`, which needs "
            "`date_range_offset_days`; by default, no window",
            ("date_range", "type"),
        ),
    ] = None
    date_range_offset_days: Annotated[
        int | None,
        Setting(
            number(0, 3_650),
            "with `custom`: how many days before the tick the window is, a whole day; 2 is the day before yesterday",
            ("date_range", "offset_days"),
        ),
    ] = None
    window_max_span: Annotated[
        float | None,
        Setting(
            duration,
            "the longest window that a caller may request, for jobs that do not set `max_span`; by default, any",
            ("date_range", "max_span"),
        ),
    ] = None
    tenant_concurrency: Annotated[
        int | None,
        Setting(
            of_option("tenant_concurrency"),
            "the `tenant_concurrency` of jobs that do not set it: how many tenants of one execution run at once; by "
            "default, any number",
            ("tenant", "concurrency"),
        ),
    ] = None
    tenant_max_attempts: Annotated[
        int | None,
        Setting(
            of_option("tenant_max_attempts"),
            f"the `tenant_max_attempts` of jobs that do not set it; by default, {defaults.TENANT_ATTEMPTS}",
            ("tenant", "max_attempts"),
        ),
    ] = None
    tenant_retry: Annotated[
        Retry | None,
        Setting(
            of_option("tenant_retry"),
            "the `tenant_retry` of jobs that do not set it, the waits between attempts of a tenant; by default, "
            "`tenant`",
            ("tenant", "retry"),
        ),
    ] = None
    tenant_continue_on_failure: Annotated[
        bool,
        Setting(
            of_option("continue_on_failure"),
            "the `continue_on_failure` of jobs that do not set it; false: once a tenant fails, no more tenants start",
            ("tenant", "continue_on_failure"),
        ),
    ] = True

    @property
    def date_range(self) -> str | None:
        """The window of jobs that name none."""
        return days_ago(self.date_range_offset_days or 0) if self.date_range_type == "custom" else self.date_range_type

    @property
    def job_defaults(self) -> JobDefaults:
        """The same as options of a job."""
        options = {name: getattr(self, option.setting) for name, option in OPTIONS.items() if option.setting}
        return JobDefaults(options | {"window": self.date_range}, self.window_max_span, self.default_isolation)
