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
            "how child processes find the application, as `MODULE:APP`, or a function that returns it; none given: by "
            "the name it has in its module",
        ),
    ] = None
    application: Annotated[
        str,
        Setting(
            text,
            "the name of this application among others on the same database; none given: the module that creates it",
        ),
    ] = ""
    enabled: Annotated[bool, Setting(switch, "false: nothing starts in this process")] = True
    roles: Annotated[
        tuple[str, ...], Setting(each(one_of(*ROLES)), "what this process does: `scheduler`, `worker`, `api`")
    ] = ("scheduler", "worker")
    timezone: Annotated[str, Setting(zone_of, "the zone of jobs that name none", ("date_range", "timezone"))] = "UTC"
    release: Annotated[str, Setting(text, "recorded with the jobs this process declares")] = ""
    prune: Annotated[bool, Setting(switch, "true: at start, remove jobs of code that no running process declares")] = (
        False
    )
    auto_migrate: Annotated[
        bool,
        Setting(switch, "false: a start only checks the schema of the database; `mainspring db migrate` changes it"),
    ] = True
    uvloop: Annotated[
        Auto,
        Setting(
            switch_or_auto,
            "the event loop of `mainspring run` and `app.run`: `auto` takes uvloop where it is installed",
        ),
    ] = "auto"


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How this process takes work, keeps its leases and stops. Durations are seconds."""

    queues: Annotated[
        tuple[str, ...] | None, Setting(queue_names, "the queues this worker takes from; none given: all")
    ] = None
    exclude: Annotated[tuple[str, ...], Setting(names, "handlers whose executions this worker does not take")] = ()
    concurrency: Annotated[int, Setting(number(1, 1000), "executions at once in one worker")] = defaults.CONCURRENCY
    poll_interval: Annotated[float, Setting(seconds(0.01, DAY), "how often to look for work when no wake-up came")] = (
        defaults.POLL_INTERVAL
    )
    lease: Annotated[
        float,
        Setting(seconds(0.1, DAY), "how long an execution stays with a worker that sends no heartbeat"),
    ] = defaults.LEASE
    heartbeat: Annotated[
        float,
        Setting(seconds(0.01, DAY), "how often leases are renewed; at most half the lease"),
    ] = defaults.HEARTBEAT
    rescue_interval: Annotated[float, Setting(seconds(0.01, DAY), "how often to look for leases that ran out")] = (
        defaults.RESCUE_INTERVAL
    )
    fold_interval: Annotated[
        float,
        Setting(seconds(0.01, DAY), "how often to finish interrupted follow-ups and to add up statistics"),
    ] = defaults.FOLD_INTERVAL
    retention_interval: Annotated[float, Setting(seconds(0.01, DAY), "how often history is pruned")] = (
        defaults.RETENTION_INTERVAL
    )
    wakeups: Annotated[bool, Setting(switch, "false: polling only")] = True
    start_timeout: Annotated[
        float,
        Setting(
            seconds(0.0, DAY),
            "how long a start waits for a database that cannot be reached yet; 0: not at all",
        ),
    ] = defaults.START_TIMEOUT
    stop_timeout: Annotated[float, Setting(seconds(0.1, DAY), "how long a stop may take in all")] = (
        defaults.STOP_TIMEOUT
    )
    stop_reserve: Annotated[
        float,
        Setting(
            seconds(0.0, DAY),
            "the last part of `stop_timeout`, for cancelling and handing back; at most half of a shorter stop",
        ),
    ] = defaults.STOP_RESERVE
    payload_limit: Annotated[
        int, Setting(number(1024, 64 * 1024 * 1024), "the largest parameters, in bytes of JSON")
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
        Setting(seconds(0.0, DAY), "how long it gets from SIGTERM to SIGKILL"),
    ] = defaults.ISOLATION_TERM_GRACE
    isolation_recycle_executions: Annotated[
        int, Setting(number(1, 1_000_000_000), "a child process is replaced after so many executions")
    ] = defaults.ISOLATION_RECYCLE_EXECUTIONS
    isolation_recycle_age: Annotated[
        float, Setting(seconds(1.0, 365 * DAY), "a child process is replaced after this time")
    ] = defaults.ISOLATION_RECYCLE_AGE
    isolation_recycle_growth: Annotated[
        int,
        Setting(size, "a child process that holds so much more than when it was new is replaced, in bytes"),
    ] = defaults.ISOLATION_RECYCLE_GROWTH


class ContextSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What handlers see of this process."""

    username: Annotated[
        str, Setting(text, "`ctx.username` of executions that no user asked for", ("context", "username"))
    ] = defaults.USERNAME
    channel: Annotated[
        str | None,
        Setting(
            text,
            "what handlers read as `ctx.channel`: where their work comes from; not set: the trigger of the execution",
            ("context", "channel"),
        ),
    ] = None


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    log_format: Annotated[
        str, Setting(one_of("console", "json", case=str.lower), "`console` or `json` (`mainspring run`)")
    ] = "console"
    log_level: Annotated[
        str,
        Setting(
            one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", case=str.upper),
            "the lowest level logged (`mainspring run`)",
        ),
    ] = "INFO"
    tracing: Annotated[
        Auto,
        Setting(
            switch_or_auto,
            "OpenTelemetry spans: `auto` makes them where the application has set a tracer provider before",
        ),
    ] = "auto"


class RedisSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Locks, and the server that may keep them."""

    locks: Annotated[
        str,
        Setting(one_of("store", "redis"), "where locks are kept: in the `store`, or on `redis`", ("lock", "backend")),
    ] = "store"
    redis_url: Annotated[
        str | None,
        Setting(
            redis_server,
            "the Redis or Valkey server, if one is used: `redis://host:6379/0?prefix=shop`",
            ("lock", "redis_url"),
            secret=True,
        ),
    ] = None
    redis_wakeups: Annotated[bool, Setting(switch, "true: processes also wake each other through `redis_url`")] = False


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    host: Annotated[str, Setting(host_address, "where a process with the role `api` listens")] = "127.0.0.1"
    port: Annotated[int, Setting(number(0, 65_535), "its port; 0 for a free one")] = 8700
    dashboard: Annotated[bool, Setting(switch, "false: no dashboard beside the HTTP interface")] = True
    api_handler: Annotated[
        str | None,
        Setting(
            identifier,
            "the handler of jobs created over HTTP that name none; unknown fields are its parameters then",
        ),
    ] = None


class MonitoringSettings(msgspec.Struct, frozen=True, kw_only=True):
    metrics_port: Annotated[
        int | None,
        Setting(
            number(0, 65_535), "a port of `host` for `/metrics`, for processes without the role `api`; 0 for a free one"
        ),
    ] = None
    metrics_jobs: Annotated[int, Setting(number(1, 100_000), "how many jobs have metrics of their own")] = 1_000
    private_urls: Annotated[
        bool, Setting(switch, "true: addresses of pings and webhooks may lead to this machine or a private network")
    ] = False
    egress_proxy: Annotated[
        str | None,
        Setting(
            proxy_server,
            "the HTTP proxy through which pings and webhooks leave, if one is used: `http://user@proxy.internal:3128`",
            secret=True,
        ),
    ] = None
    smtp_url: Annotated[
        str | None,
        Setting(
            smtp_server,
            "the server for webhooks of the format `email`, if one is used: `smtp://user@host:587?from=jobs@example.com`",
            secret=True,
        ),
    ] = None


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults of job options; None leaves them to the table of options (`core/declaring/options.py`)."""

    retry_max_attempts: Annotated[
        int | None,
        Setting(
            of_option("max_attempts"),
            f"tries of jobs that do not say; none given: {defaults.SCHEDULED_ATTEMPTS} with a schedule, "
            f"{defaults.ENQUEUED_ATTEMPTS} on demand, {defaults.API_RETRIES + 1} if created over HTTP",
            ("retry", "max_attempts"),
        ),
    ] = None
    retry_policy: Annotated[
        Retry | None,
        Setting(
            of_option("retry"),
            "waits between tries of jobs that do not say: `queue`, `tenant` or `patient`, or a table",
            ("retry", "policy"),
        ),
    ] = None
    run_timeout: Annotated[
        float | None,
        Setting(
            of_option("run_timeout"),
            "the longest a run may take as a whole, tenants and retries included, of jobs that do not say; "
            "none given: any time",
            ("lock", "timeout"),
        ),
    ] = None
    default_isolation: Annotated[
        Isolation,
        Setting(
            of_option("isolation"),
            "where plain functions run that do not say: in a `thread`, or in a `process` that a timeout can stop",
        ),
    ] = "thread"
    date_range_type: Annotated[
        Literal["yesterday", "today", "custom"] | None,
        Setting(
            one_of("yesterday", "today", "custom", case=str.lower),
            "the window of jobs that name none: `yesterday`, `today`, or `custom`, which needs "
            "`date_range_offset_days`; none given: no window",
            ("date_range", "type"),
        ),
    ] = None
    date_range_offset_days: Annotated[
        int | None,
        Setting(
            number(0, 3_650),
            "with `custom`: one whole day, so many days before that of the tick; 2 is the day before yesterday",
            ("date_range", "offset_days"),
        ),
    ] = None
    window_max_span: Annotated[
        float | None,
        Setting(
            duration,
            "the longest window that a caller may ask for, of jobs that set no `max_span`; none given: any",
            ("date_range", "max_span"),
        ),
    ] = None
    tenant_concurrency: Annotated[
        int | None,
        Setting(
            of_option("tenant_concurrency"),
            "tenants of one execution at once, of jobs that do not say; none given: any number",
            ("tenant", "concurrency"),
        ),
    ] = None
    tenant_max_attempts: Annotated[
        int | None,
        Setting(
            of_option("tenant_max_attempts"),
            f"tries of a tenant, of jobs that do not say; none given: {defaults.TENANT_ATTEMPTS}",
            ("tenant", "max_attempts"),
        ),
    ] = None
    tenant_retry: Annotated[
        Retry | None,
        Setting(
            of_option("tenant_retry"),
            "waits between tries of a tenant, of jobs that do not say; none given: `tenant`",
            ("tenant", "retry"),
        ),
    ] = None
    tenant_continue_on_failure: Annotated[
        bool,
        Setting(
            of_option("continue_on_failure"),
            "false: a tenant that fails stops those not started yet, of jobs that do not say",
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
