"""Loads settings: arguments over environment (`MAINSPRING_*`) over a TOML file over defaults, each value checked once.

Every error says which setting, which value, where it came from and what is allowed.

>>> load({"concurrency": 4}, {"MAINSPRING_LEASE": "1m"}, None).lease
60.0
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..model import defaults
from ..model.errors import ConfigurationError, InvalidValue, nearest, shown
from ..model.values.reading import duration_text
from ..model.values.web_address import NOT_SHOWN
from .rules import SecretFile
from .rules import secret as secret_rule
from .settings import PREFIX, SETTINGS, Settings, Source

SECTIONS: dict[str, dict[str, str]] = {}
"""The sections of the TOML file: their keys, and the settings that they set."""
for _name, _setting in SETTINGS.items():
    if _setting.toml is not None:
        SECTIONS.setdefault(_setting.toml[0], {})[_setting.toml[1]] = _name


class _Given(msgspec.Struct, frozen=True):
    """A value as it was written, and its source."""

    value: Any
    source: Source


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
    sources = {name: item.source for name, item in given.items()}
    settings = Settings(values=values, environ=environ, sources=sources, file=_file_path(source)).with_changes(checked)
    _check_together(settings, given)
    return settings


_LISTED = "`mainspring config show` lists all settings"


def _from_arguments(arguments: Mapping[str, Any]) -> dict[str, _Given]:
    chosen = {name: value for name, value in arguments.items() if value is not None}
    given = {name: _Given(value, Source("argument", f"argument {name}")) for name, value in chosen.items()}
    return _known(given, SETTINGS)


def _from_file(table: Mapping[str, Any], source: str) -> dict[str, _Given]:
    given = {name: _Given(value, where) for name, value, where in _unfolded(table, source)}
    return _known(given, [*SETTINGS, *SECTIONS, "values"])


def _from_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    """Empty variables count as not set. An unknown variable is an error, because it would have no effect."""
    given = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or not value or _not_a_setting(variable, value):
            continue
        name, value = _setting_of(variable, value, environ)
        if name not in SETTINGS:
            near = nearest(name, SETTINGS)
            hint = f"did you mean {PREFIX}{near.upper()}?" if near else _LISTED
            raise ConfigurationError(f"environment variable {variable} is not a setting; {hint}")
        given[name] = _Given(value, Source("environment", variable))
    return given


def _setting_of(variable: str, value: str, environ: Mapping[str, str]) -> tuple[str, Any]:
    """The name and value of the setting that a variable is about. `MAINSPRING_JWT_SECRET_FILE` names a file that holds
    the secret, and so does the variable of any other setting with a password in it. The secret of the HTTP interface is
    read by the process that serves it, no other process has to be able to."""
    name = variable.removeprefix(PREFIX).lower()
    secret = name.removesuffix("_file")
    if name in SETTINGS or secret not in SETTINGS or not SETTINGS[secret].secret:
        return name, value
    if environ.get(PREFIX + secret.upper()):
        raise ConfigurationError(f"{PREFIX}{secret.upper()} and {variable} are both set; remove one of them")
    file = SecretFile(value, variable)
    return secret, file if SETTINGS[secret].rule is secret_rule else file.reveal()


def _not_a_setting(variable: str, value: str) -> bool:
    name = variable.removeprefix(PREFIX)
    if name in {"CONFIG", "APP", "API_TOKEN_FILE"} or name.startswith("TEST_"):
        return True
    if name == "API_TOKEN" and value.startswith(("mainspring_", "ey")):
        return True  # of an assistant, an API token or a JWT; `true` was meant for MAINSPRING_API_TOKENS
    # Kubernetes sets these in every pod beside a Service called "mainspring", or "mainspring-api" and the like.
    return bool(re.fullmatch(r"(.+_)?(SERVICE_(HOST|PORT(_.+)?)|PORT_[0-9]+_.+)", name)) or (
        bool(re.fullmatch(r"(.+_)?PORT", name)) and value.startswith(("tcp://", "udp://", "sctp://"))
    )


def _known(given: dict[str, _Given], known: Any) -> dict[str, _Given]:
    for name, item in given.items():
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else _hint_at_table(name, item.value)
            raise ConfigurationError(f"unknown setting {shown(name)} (from {item.source}); {hint}")
    return given


def _hint_at_table(name: str, value: Any) -> str:
    """People tend to group settings in a table of their own."""
    inside = [key for key in value if key in SETTINGS] if isinstance(value, Mapping) else []
    return f"there is no table [{name}]: write {inside[0]} = ... above all tables" if inside else _LISTED


def _checked(name: str, item: _Given) -> Any:
    try:
        return SETTINGS[name].rule(f"{name} (from {item.source})", item.value)
    except InvalidValue as error:
        if item.source.place != f"{PREFIX}{name.upper()}_FILE":
            raise
        # Somebody may have named the file of another secret.
        raise InvalidValue(error.field, NOT_SHOWN, error.allowed, error.remedy) from None


def _adapt(checked: dict[str, Any]) -> None:
    """A default follows the setting beside it: a short lease brings a short heartbeat with it. `report.FOLLOWS` names
    these pairs."""
    if "lease" in checked:
        checked.setdefault("heartbeat", checked["lease"] * defaults.HEARTBEAT / defaults.LEASE)
    if "stop_timeout" in checked:
        checked.setdefault("stop_reserve", min(defaults.STOP_RESERVE, checked["stop_timeout"] / 2))


def _check_together(settings: Settings, given: Mapping[str, _Given]) -> None:
    if settings.lease < 2 * settings.heartbeat:
        field = _described("heartbeat", given)
        limit = f"at most half the lease ({duration_text(settings.lease)}, {_origin('lease', given)})"
        raise InvalidValue(field, duration_text(settings.heartbeat), limit, "Raise lease or lower heartbeat")
    if settings.stop_reserve >= settings.stop_timeout:
        field = _described("stop_reserve", given)
        limit = f"less than stop_timeout ({duration_text(settings.stop_timeout)}, {_origin('stop_timeout', given)})"
        raise InvalidValue(field, duration_text(settings.stop_reserve), limit)

    custom, days = settings.date_range_type == "custom", settings.date_range_offset_days
    if custom and days is None:
        example = "such as 2 for the day before yesterday"
        raise ConfigurationError(f"{_described('date_range_type', given)} needs date_range_offset_days, {example}")
    if days is not None and not custom:
        allowed = "no days without date_range_type custom"
        raise InvalidValue(_described("date_range_offset_days", given), days, allowed, "Set it to custom")
    for name, wanted in (("locks", settings.locks == "redis"), ("redis_wakeups", settings.redis_wakeups)):
        if wanted and settings.redis_url is None:
            raise ConfigurationError(f"{_described(name, given)} needs redis_url, such as redis://localhost:6379/0")


def _described(name: str, given: Mapping[str, _Given]) -> str:
    return f"{name} ({_origin(name, given)})"


def _origin(name: str, given: Mapping[str, _Given]) -> str:
    return f"from {given[name].source}" if name in given else "the default"


# --- sections of the file -------------------------------------------------------------------------------------


def _unfolded(table: Mapping[str, Any], source: str) -> Iterator[tuple[str, Any, Source]]:
    """Every setting of a file by its own name, with its value and its place. The same one twice is an error."""
    places: dict[str, Source] = {}
    for name, value, place in _all(table, source):
        if name in places:
            raise ConfigurationError(f"{name} is set twice: in {places[name]}, and in {place}; remove one of them")
        places[name] = place
        yield name, value, place


def _all(table: Mapping[str, Any], source: str) -> Iterator[tuple[str, Any, Source]]:
    for name, value in table.items():
        if name not in SECTIONS:
            yield name, value, Source("file", source, name)
            continue
        keys = SECTIONS[name]
        if not isinstance(value, Mapping):
            raise InvalidValue(f"{name} (from {source})", value, f"a section [{name}] with {', '.join(keys)}")
        for key, inner in value.items():
            if key not in keys:
                guess = nearest(key, keys)
                hint = f"did you mean {guess!r}?" if guess else f"known are {', '.join(keys)}"
                raise ConfigurationError(f"unknown setting {shown(key)} in section [{name}] (from {source}); {hint}")
            yield keys[key], inner, Source("file", f"{source}, [{name}] {key}")


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


def _file_path(source: str) -> str | None:
    return str(Path(source).resolve()) if source else None


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
