"""All settings of one process, by section, and every setting by its name.

`settings.lease` is short for `settings.engine.lease`: names are unique over all sections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict, get_args, get_type_hints

import msgspec

from ..core.declaring.job_specs import JobDefaults
from ..model.errors import ConfigurationError, nearest
from ..model.policies import Isolation, Retry, RetryPreset
from ..model.values.access import HIDDEN, Secret
from ..model.values.database_url import without_password
from ..model.values.given import AnyCaseLogLevel, Duration, Several
from .rules import Setting
from .sections import (
    ContextSettings,
    EngineSettings,
    HttpSettings,
    IsolationSettings,
    JobSettings,
    LogSettings,
    MonitoringSettings,
    ProcessSettings,
    RedisSettings,
)
from .security import SecuritySettings, check_security

PREFIX = "MAINSPRING_"
"""The prefix of environment variables that set a setting."""

_Names: TypeAlias = Iterable[str] | str


class SettingsOptions(TypedDict, total=False):
    """The settings as arguments of `Mainspring(...)` and `app.start(...)`. None counts as not given."""

    database_url: str | None
    import_path: str | None
    application: str | None
    enabled: bool | None
    roles: Several[Literal["scheduler", "worker", "api"]] | str | None
    timezone: str | None
    release: str | None
    prune: bool | None
    auto_migrate: bool | None
    uvloop: bool | Literal["auto"] | None
    queues: _Names | None
    exclude: _Names | None
    concurrency: int | None
    poll_interval: Duration | None
    lease: Duration | None
    heartbeat: Duration | None
    rescue_interval: Duration | None
    fold_interval: Duration | None
    retention_interval: Duration | None
    wakeups: bool | None
    start_timeout: Duration | None
    stop_timeout: Duration | None
    stop_reserve: Duration | None
    payload_limit: int | None
    isolation_cancel_grace: Duration | None
    isolation_term_grace: Duration | None
    isolation_recycle_executions: int | None
    isolation_recycle_age: Duration | None
    isolation_recycle_growth: int | str | None
    username: str | None
    channel: str | None
    log_format: Literal["console", "json"] | None
    log_level: AnyCaseLogLevel | None
    tracing: bool | Literal["auto"] | None
    locks: Literal["store", "redis"] | None
    redis_url: str | None
    redis_wakeups: bool | None
    host: str | None
    port: int | None
    dashboard: bool | None
    api_handler: str | None
    sys_allow: _Names | None
    api_allow: _Names | None
    hooks_allow: _Names | None
    trusted_proxies: _Names | None
    proxy_header: Literal["x-forwarded-for", "forwarded"] | None
    api_hosts: _Names | None
    allow_loopback: bool | None
    api_tokens: bool | None
    jwt_algorithms: _Names | None
    jwt_secret: Secret | str | None
    jwt_key_file: str | None
    jwt_jwks_file: str | None
    jwt_audience: str | None
    jwt_issuer: str | None
    jwt_leeway: Duration | None
    jwt_role_claim: str | None
    failed_logins_per_minute: int | None
    audit_retention: Duration | None
    metrics_port: int | None
    metrics_jobs: int | None
    private_urls: bool | None
    egress_proxy: str | None
    smtp_url: str | None
    retry_max_attempts: int | None
    retry_policy: Retry | RetryPreset | Mapping[str, Any] | None
    run_timeout: Duration | None
    default_isolation: Isolation | None
    date_range_type: Literal["yesterday", "today", "custom"] | None
    date_range_offset_days: int | None
    window_max_span: Duration | None
    tenant_concurrency: int | None
    tenant_max_attempts: int | None
    tenant_retry: Retry | RetryPreset | Mapping[str, Any] | None
    tenant_continue_on_failure: bool | None


class Source(msgspec.Struct, frozen=True):
    """Where a setting came from. `words` name it in errors; `key` is its key in a file."""

    kind: Literal["argument", "environment", "file"]
    words: str
    key: str = ""

    def __str__(self) -> str:
        return self.words

    @property
    def place(self) -> str:
        """The whole origin: `mainspring.toml, [retry] policy`."""
        return f"{self.words}, {self.key}" if self.key else self.words


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of one process. `load` makes and checks them; durations are seconds."""

    process: ProcessSettings = ProcessSettings()
    engine: EngineSettings = EngineSettings()
    isolation: IsolationSettings = IsolationSettings()
    context: ContextSettings = ContextSettings()
    logs: LogSettings = LogSettings()
    redis: RedisSettings = RedisSettings()
    http: HttpSettings = HttpSettings()
    security: SecuritySettings = SecuritySettings()
    monitoring: MonitoringSettings = MonitoringSettings()
    jobs: JobSettings = JobSettings()
    values: Mapping[str, Any] = {}
    """The values of placeholders, from the table `[values]` of the file."""
    environ: Mapping[str, str] = {}
    sources: Mapping[str, Source] = {}
    """Where each setting that was given came from."""
    file: str | None = None
    """The TOML file that was read."""

    def __getattr__(self, name: str) -> Any:
        """Every setting by its name alone."""
        if name not in SECTION_OF:
            raise AttributeError(f"there is no setting {name!r}")
        return getattr(getattr(self, SECTION_OF[name]), name)

    def with_changes(self, changes: Mapping[str, Any]) -> Settings:
        """The same with these settings, given by their names, in the place of the present ones."""
        sections: dict[str, dict[str, Any]] = {}
        for name, value in changes.items():
            sections.setdefault(SECTION_OF[name], {})[name] = value
        replaced = {name: msgspec.structs.replace(getattr(self, name), **given) for name, given in sections.items()}
        return msgspec.structs.replace(self, **replaced)

    @property
    def job_defaults(self) -> JobDefaults:
        """What jobs get that do not say otherwise, and the limit of their parameters."""
        return msgspec.structs.replace(self.jobs.job_defaults, payload_limit=self.payload_limit)

    def check_http(self) -> None:
        """Refuse settings by which nobody could log in as intended. For the process that serves HTTP: the others run
        without its secrets."""
        check_security(
            self.security, lambda name: f"{name} (from {self.sources[name]})" if name in self.sources else name
        )

    def lookup(self, key: str) -> str:
        """The value a placeholder such as `${reports.cron}` stands for: from `[values]`, then from the environment.

        >>> Settings(values={"reports": {"cron": "@hourly"}}).lookup("reports.cron")
        '@hourly'
        """
        found = _nested(self.values, key)
        name = variable_name(key)
        if found is None:
            found = self.environ.get(name)
        if found is None:
            near = nearest(key, _paths(self.values))
            hint = f"did you mean {near!r}?" if near else f"set it under [values] in mainspring.toml, or as {name}"
            raise ConfigurationError(f"${{{key}}} has no value; {hint}")
        return str(found)

    def in_force(self) -> dict[str, object]:
        """The settings to show and log: no password, no secret, no free values, no environment."""
        given = {name: getattr(self, name) for name in SETTINGS}
        return {name: _masked(value) if SETTINGS[name].secret else value for name, value in given.items()}

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.in_force().items())})"


def _masked(value: Secret | str | None) -> object:
    if isinstance(value, Secret):
        return HIDDEN
    return without_password(value) if value else value


_NO_SECTIONS = ("values", "environ", "sources", "file")
_SECTIONS: dict[str, type[msgspec.Struct]] = {
    name: kind for name, kind in get_type_hints(Settings).items() if name not in _NO_SECTIONS
}
SECTION_OF = {name: section for section, kind in _SECTIONS.items() for name in kind.__struct_fields__}
"""The section of every setting."""

SETTINGS: dict[str, Setting] = {
    name: get_args(hint)[1]
    for kind in _SECTIONS.values()
    for name, hint in get_type_hints(kind, include_extras=True).items()
}
"""Every setting by its name: its rule, its meaning and its place in the file."""


# --- placeholders ---------------------------------------------------------------------------------------------


def variable_name(key: str) -> str:
    """The environment variable of a placeholder: `reports.cron` is `REPORTS_CRON`."""
    return re.sub(r"[^A-Za-z0-9]+", "_", key).upper()


def _nested(values: Mapping[str, Any], key: str) -> Any:
    if key in values:
        found = values[key]
    else:
        head, _, rest = key.partition(".")
        inner = values.get(head) if rest else None
        found = _nested(inner, rest) if isinstance(inner, Mapping) else None
    return None if isinstance(found, Mapping) else found


def _paths(values: Mapping[str, Any], prefix: str = "") -> list[str]:
    paths = []
    for name, value in values.items():
        paths += _paths(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [prefix + name]
    return paths
