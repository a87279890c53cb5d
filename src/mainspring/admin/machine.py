"""Facts about this machine and the environment of this process, for the doctor: packages, time zones, limits, files."""

from __future__ import annotations

import os
import re
import zoneinfo
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..config.settings import PREFIX, SETTINGS, Settings
from ..core.doctor.facts import MachineFacts
from ..model.errors import MainspringError
from ..model.values.database_url import parse_url

DRIVERS = {"postgresql": ("psycopg", "postgres"), "mongodb": ("pymongo", "mongo")}
FILE = "mainspring.toml"


def facts(settings: Settings, url: str | None, arguments: Mapping[str, Any]) -> MachineFacts:
    """`arguments` are the settings that the application gives in code."""
    return MachineFacts(
        year=datetime.now(UTC).year,
        zones=_zones_release(),
        zones_known=_knows_zones(),
        missing=list(_missing(settings, url)),
        descriptors=_descriptors(),
        shadowed=list(_shadowed(settings, arguments)),
        config_above=_config_above(settings.environ or os.environ),
    )


def _missing(settings: Settings, url: str | None) -> Iterator[tuple[str, str, str]]:
    """The packages that these settings need and that are not installed."""
    driver = DRIVERS.get(parse_url(url).scheme) if url else None
    wanted = [
        ("database_url", *driver) if driver else None,
        ("redis_url", "redis", "redis") if settings.redis_url is not None else None,
        ("uvloop", "uvloop", "uvloop") if settings.uvloop is True else None,
        ("tracing", "opentelemetry", "otel") if settings.tracing is True else None,
    ]
    if "api" in settings.roles:
        wanted += [("the role api", package, "server") for package in ("fastapi", "uvicorn")]
    yield from (each for each in wanted if each is not None and not _installed(each[1]))


def _installed(package: str) -> bool:
    return find_spec(package) is not None


# --- time zones -------------------------------------------------------------------------------------------------------


def _knows_zones() -> bool:
    try:
        return zoneinfo.ZoneInfo.no_cache("Europe/Berlin") is not None
    except zoneinfo.ZoneInfoNotFoundError:
        return False


def _zones_release() -> str:
    """The release of the data that Python reads: that of the system first, then that of the package tzdata."""
    for folder in zoneinfo.TZPATH:
        if (Path(folder) / "Europe" / "Berlin").is_file():
            return _system_release(Path(folder))
    try:
        return version("tzdata")
    except PackageNotFoundError:
        return ""


def _system_release(folder: Path) -> str:
    """What the files of the system say; empty if they say nothing."""
    for name, pattern in (("tzdata.zi", r"# version (\S+)"), ("+VERSION", r"(\S+)")):
        try:
            with (folder / name).open(encoding="utf-8") as file:
                found = re.match(pattern, file.readline())
        except OSError:
            continue
        if found:
            return found[1]
    return ""


# --- the process ------------------------------------------------------------------------------------------------------


def _descriptors() -> int | None:
    """The most files that this process may open; None where there is no such limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _shadowed(settings: Settings, arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Variables without effect, because the application's code sets something else."""
    for name in sorted(arguments.keys() & SETTINGS.keys()):
        variable = PREFIX + name.upper()
        given = (settings.environ or os.environ).get(variable)
        if given and arguments[name] is not None and _read(name, given) != getattr(settings, name):
            yield variable, f"the argument {name}={_shown(name, settings)} of the application"


def _read(name: str, value: str) -> Any:
    try:
        return SETTINGS[name].rule(name, value)
    except MainspringError:
        return None


def _shown(name: str, settings: Settings) -> str:
    return repr(settings.in_force()[name])


def _config_above(environ: Mapping[str, str]) -> str | None:
    """A configuration file in a folder above, if there is none here and none was named."""
    if environ.get(f"{PREFIX}CONFIG") or Path(FILE).is_file():
        return None
    return next((str(folder / FILE) for folder in Path.cwd().parents if (folder / FILE).is_file()), None)
