"""Settings: arguments over environment (`MAINSPRING_*`) over a TOML file over defaults, each value checked once.

Every error says which setting, which value, where it came from and what is allowed.

>>> load({"concurrency": 4}, {"MAINSPRING_LEASE": "1m"}, None).lease
60.0
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ..model import defaults
from ..model.errors import ConfigurationError, InvalidValue, nearest, shown
from ..model.values.database_url import DatabaseUrl, parse_url, redis_url, without_password
from ..model.values.reading import choice, duration, duration_text, identifier, zone, zone_name
from ..model.values.secret import HIDDEN, Secret
from . import jobs, monitoring, security
from .jobs import JobSettings
from .sections import SECTIONS, unfolded
from .security import check_security
from .values import number, switch

__all__ = ["DatabaseUrl", "Settings", "load", "parse_url", "without_password"]

PREFIX = "MAINSPRING_"
LOCKS = ("store", "redis")
ROLES = ("scheduler", "worker", "api")
LOG_FORMATS = ("console", "json")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

DAY = 86_400.0


class Settings(JobSettings, frozen=True, kw_only=True):
    """All settings of one process. Made by `load`, which checks them; durations are seconds."""

    database_url: str = "sqlite:///mainspring.db"
    enabled: bool = True
    roles: tuple[str, ...] = ("scheduler", "worker")
    timezone: str = "UTC"
    release: str = ""
    queues: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    concurrency: int = defaults.CONCURRENCY
    poll_interval: float = defaults.POLL_INTERVAL
    lease: float = defaults.LEASE
    heartbeat: float = defaults.HEARTBEAT
    rescue_interval: float = defaults.RESCUE_INTERVAL
    fold_interval: float = defaults.FOLD_INTERVAL
    retention_interval: float = defaults.RETENTION_INTERVAL
    wakeups: bool = True
    uvloop: bool | str = "auto"
    stop_timeout: float = defaults.STOP_TIMEOUT
    stop_reserve: float = defaults.STOP_RESERVE
    payload_limit: int = defaults.PAYLOAD_LIMIT
    username: str = defaults.USERNAME
    channel: str | None = None
    log_format: str = "console"
    log_level: str = "INFO"
    tracing: bool | str = "auto"
    prune: bool = False
    locks: str = "store"
    redis_url: str | None = None
    redis_wakeups: bool = False
    host: str = "127.0.0.1"
    port: int = 8700
    api_handler: str | None = None
    values: Mapping[str, Any] = {}
    environ: Mapping[str, str] = {}

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
        given = {name: getattr(self, name) for name in RULES}
        fields = {name: HIDDEN if isinstance(value, Secret) else value for name, value in given.items()}
        hidden = {name: without_password(fields[name]) for name in ("database_url", "redis_url") if fields[name]}
        return fields | hidden

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.in_force().items())})"


# --- loading ------------------------------------------------------------------------------------------------


class _Given(msgspec.Struct, frozen=True):
    """A value as somebody wrote it, and where."""

    value: Any
    source: str


def load(
    arguments: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    path: Path | str | None = None,
) -> Settings:
    """Settings from all sources. An argument that is None counts as not given.

    `path` names the TOML file; without it, `MAINSPRING_CONFIG`, then `mainspring.toml` and the table
    `[tool.mainspring]` of `pyproject.toml` in the working folder.
    """
    environ = os.environ if environ is None else environ
    table, source = _file_settings(environ, path)
    values = table.pop("values", {})
    if not isinstance(values, dict):
        raise InvalidValue(f"values (from {source})", values, "a table of values for placeholders")
    given = _from_file(table, source) | _from_environment(environ) | _from_arguments(arguments or {})
    checked = {name: _checked(name, item) for name, item in given.items()}
    _adapt(checked)
    settings = Settings(**checked, values=values, environ=environ)
    _check_together(settings, given)
    return settings


def _from_arguments(arguments: Mapping[str, Any]) -> dict[str, _Given]:
    given = {name: _Given(value, f"argument {name}") for name, value in arguments.items() if value is not None}
    return _known(given, RULES)


def _from_file(table: Mapping[str, Any], source: str) -> dict[str, _Given]:
    given = {name: _Given(value, place) for name, value, place in unfolded(table, source)}
    return _known(given, [*RULES, *SECTIONS, "values"])


def _from_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    """Empty variables count as not set. An unknown one is an error: it is a setting somebody believes in."""
    given = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or not value or _not_a_setting(variable, value):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name not in RULES:
            near = nearest(name, RULES)
            hint = f"did you mean {PREFIX}{near.upper()}?" if near else _all_of(PREFIX + key.upper() for key in RULES)
            raise ConfigurationError(f"environment variable {variable} is not a setting; {hint}")
        given[name] = _Given(value, variable)
    return given


def _not_a_setting(variable: str, value: str) -> bool:
    name = variable.removeprefix(PREFIX)
    if name in {"CONFIG", "APP"} or name.startswith("TEST_"):
        return True
    # Kubernetes sets these in every pod beside a Service called "mainspring".
    return bool(re.fullmatch(r"SERVICE_(HOST|PORT(_.+)?)|PORT(_[0-9]+_.+)?", name)) and (
        name.startswith("SERVICE_") or "_" in name or "://" in value
    )


def _known(given: dict[str, _Given], known: Any) -> dict[str, _Given]:
    for name, item in given.items():
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else _all_of(known)
            raise ConfigurationError(f"unknown setting {shown(name)} (from {item.source}); {hint}")
    return given


def _all_of(names: Any) -> str:
    return f"known are {', '.join(sorted(names))}"


def _checked(name: str, item: _Given) -> Any:
    return RULES[name](f"{name} (from {item.source})", item.value)


def _adapt(checked: dict[str, Any]) -> None:
    """A default follows the setting beside it: a short lease brings a short heartbeat with it."""
    if "lease" in checked:
        checked.setdefault("heartbeat", checked["lease"] * defaults.HEARTBEAT / defaults.LEASE)
    if "stop_timeout" in checked:
        checked.setdefault("stop_reserve", min(defaults.STOP_RESERVE, checked["stop_timeout"] / 2))


def _check_together(settings: Settings, given: Mapping[str, _Given]) -> None:
    if settings.lease < 2 * settings.heartbeat:
        field = _told("heartbeat", given)
        limit = f"at most half the lease ({duration_text(settings.lease)}, {_origin('lease', given)})"
        raise InvalidValue(field, duration_text(settings.heartbeat), limit, "Raise lease or lower heartbeat")
    if settings.stop_reserve >= settings.stop_timeout:
        field = _told("stop_reserve", given)
        limit = f"less than stop_timeout ({duration_text(settings.stop_timeout)}, {_origin('stop_timeout', given)})"
        raise InvalidValue(field, duration_text(settings.stop_reserve), limit)

    for name, wanted in (("locks", settings.locks == "redis"), ("redis_wakeups", settings.redis_wakeups)):
        if wanted and settings.redis_url is None:
            raise ConfigurationError(f"{_told(name, given)} needs redis_url, such as redis://localhost:6379/0")
    check_security(settings, lambda name: _told(name, given))


def _told(name: str, given: Mapping[str, _Given]) -> str:
    return f"{name} ({_origin(name, given)})"


def _origin(name: str, given: Mapping[str, _Given]) -> str:
    return f"from {given[name].source}" if name in given else "the default"


# --- the TOML file ------------------------------------------------------------------------------------------


def _file_settings(environ: Mapping[str, str], path: Path | str | None) -> tuple[dict[str, Any], str]:
    named = path or environ.get(f"{PREFIX}CONFIG")
    if named:
        file = Path(named)
        return _table_of(file, _read_toml(file, "" if path else f" (from {PREFIX}CONFIG)")), str(named)
    for file in (Path("mainspring.toml"), Path("pyproject.toml")):
        if file.is_file():
            table = _table_of(file, _read_toml(file))
            if table or file.name == "mainspring.toml":
                return table, file.name
    return {}, ""


def _table_of(file: Path, content: dict[str, Any]) -> dict[str, Any]:
    if file.name != "pyproject.toml":
        return content
    table = content.get("tool", {}).get("mainspring", {})
    if not isinstance(table, dict):
        raise InvalidValue("tool.mainspring (from pyproject.toml)", table, "a table of settings")
    return dict(table)


def _read_toml(file: Path, named_by: str = "") -> dict[str, Any]:
    import tomllib  # only when there is a file to read

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"configuration file {str(file)!r}{named_by}: {error.strerror or error}") from None
    except ValueError as error:  # broken TOML or broken UTF-8
        raise ConfigurationError(f"configuration file {str(file)!r}{named_by} is not valid TOML: {error}") from None


# --- placeholders -------------------------------------------------------------------------------------------


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


# --- one rule per setting -----------------------------------------------------------------------------------


def _switch_or_auto(field: str, value: Any) -> bool | str:
    if isinstance(value, str) and value.strip().lower() == "auto":
        return "auto"
    try:
        return switch(field, value)
    except InvalidValue:
        raise InvalidValue(field, value, "auto, true or false") from None


def _seconds(low: float, high: float, field: str, value: Any) -> float:
    seconds = duration(field, value, allow_zero=True)
    if not low <= seconds <= high:
        least = duration_text(low) if low else "0s"
        raise InvalidValue(field, value, f"a duration from {least} to {duration_text(high)}")
    return seconds


def _text(field: str, value: Any) -> str:
    if isinstance(value, str) and len(value) <= 200 and (value.isprintable() or not value):
        return value
    raise InvalidValue(field, value, "printable text of at most 200 characters")


def _names(field: str, value: Any) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple | set | frozenset):
        raise InvalidValue(field, value, "a list of names, or text with commas between them")
    names = [item.strip() if isinstance(item, str) else item for item in items]
    return tuple(dict.fromkeys(identifier(field, name) for name in names if name != ""))


def _queues(field: str, value: Any) -> tuple[str, ...] | None:
    if value == "*":
        return None
    names = _names(field, value)
    if not names:
        raise InvalidValue(field, value, 'at least one queue, or "*" for all', "To run no work, leave out role worker")
    return names


def _roles(field: str, value: Any) -> tuple[str, ...]:
    return tuple(choice(field, name, ROLES) for name in _names(field, value))


def _zone(field: str, value: Any) -> str:
    return zone_name(zone(field, value))


def _level(field: str, value: Any) -> str:
    return choice(field, value.strip().upper() if isinstance(value, str) else value, LOG_LEVELS)


def _host(field: str, value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.:%\[\]-]{1,255}", value):
        return value.strip("[]")
    raise InvalidValue(field, value, "an address or a name to listen on, such as 127.0.0.1")


def _log_format(field: str, value: Any) -> str:
    return choice(field, value.strip().lower() if isinstance(value, str) else value, LOG_FORMATS)


RULES: dict[str, Callable[[str, Any], Any]] = {
    "database_url": lambda field, value: parse_url(value, field).url,
    "enabled": switch,
    "roles": _roles,
    "timezone": _zone,
    "release": _text,
    "queues": _queues,
    "exclude": _names,
    "concurrency": number(1, 1000),
    "poll_interval": partial(_seconds, 0.01, DAY),
    "lease": partial(_seconds, 0.1, DAY),
    "heartbeat": partial(_seconds, 0.01, DAY),
    "rescue_interval": partial(_seconds, 0.01, DAY),
    "fold_interval": partial(_seconds, 0.01, DAY),
    "retention_interval": partial(_seconds, 0.01, DAY),
    "wakeups": switch,
    "uvloop": _switch_or_auto,
    "stop_timeout": partial(_seconds, 0.1, DAY),
    "stop_reserve": partial(_seconds, 0.0, DAY),
    "payload_limit": number(1024, 64 * 1024 * 1024),
    "username": _text,
    "channel": _text,
    "log_format": _log_format,
    "log_level": _level,
    "tracing": _switch_or_auto,
    "prune": switch,
    "locks": lambda field, value: choice(field, value, LOCKS),
    "redis_url": lambda field, value: redis_url(value, field),
    "redis_wakeups": switch,
    "host": _host,
    "port": number(0, 65_535),
    "api_handler": identifier,
    **security.RULES,
    **monitoring.RULES,
    **jobs.RULES,
}
