"""Periodic tasks of a Celery application: its `beat_schedule`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from ...app.import_path import load_object
from ...core.rules.importing.cron_fields import CronFields
from ...core.rules.importing.policies import celery_policy
from ...core.rules.importing.rows import ImportRow, NeedsReview, Schedule, completed, job_name
from ...model.errors import ConfigurationError, InvalidValue
from ...model.time.zones import zone, zone_name
from ...model.triggers.interval import in_words
from .celery_schedules import SOLAR, crontab_schedule, interval_schedule, refuse_own_task
from .libraries import library


class BeatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an application says about its periodic tasks."""

    entries: Mapping[str, Mapping[str, Any]]
    tz: str
    deadline: float | None = None
    """`beat_cron_starting_deadline`, in seconds."""


def beat_settings(source: str) -> BeatSettings:
    """The settings of `MODULE:CELERY_APP`. As in beat, its modules are imported first, and may add to the schedule."""
    celery = library("celery")
    if celery is None:
        raise ConfigurationError("Celery is not installed here: import in the environment of the application")
    app = load_object(source, "--from")
    if not isinstance(app, celery.Celery):
        raise InvalidValue("--from", source, "a Celery application", f"It is a {type(app).__name__}")
    try:
        app.loader.import_default_modules()
        app.finalize()
    except Exception as error:  # whatever the modules of the application may raise
        what = f"{type(error).__name__}: {error}"
        raise InvalidValue("--from", source, "an application whose task modules can be imported", what) from error
    return BeatSettings(
        entries=app.conf.beat_schedule or {}, tz=_zone(app.timezone), deadline=app.conf.beat_cron_starting_deadline
    )


def _zone(tz: Any) -> str:
    """The zone of an application; one without a name is that of the machine."""
    try:
        return zone_name(zone("timezone", tz))
    except InvalidValue:
        return zone_name(zone("timezone", "local"))


def beat_rows(settings: BeatSettings, now: datetime) -> list[ImportRow]:
    return [_row(name, entry, settings, now) for name, entry in settings.entries.items()]


def _row(name: str, entry: Mapping[str, Any], settings: BeatSettings, now: datetime) -> ImportRow:
    row = ImportRow(
        source=str(name)[:30],
        name=job_name(str(name)),
        schedule=_text(entry.get("schedule")),
        task=str(entry.get("task", name)),
        args=tuple(entry.get("args") or ()),
        params=entry.get("kwargs") or {},
    )
    return completed(row, lambda row: _complete(row, entry, settings, now))


def _complete(row: ImportRow, entry: Mapping[str, Any], settings: BeatSettings, now: datetime) -> ImportRow:
    refuse_own_task(row.task or "")
    schedule = _schedule(entry["schedule"], bool(entry.get("relative")), settings.tz, now)
    options, changes = celery_policy(entry.get("options") or {}, settings.deadline)
    return msgspec.structs.replace(
        row,
        trigger=schedule.trigger,
        tz=schedule.tz,
        options=options,
        changes=(*schedule.changes, *changes),
        notes=schedule.notes,
    )


def _schedule(given: Any, relative: bool, tz: str, now: datetime) -> Schedule:
    schedules = library("celery.schedules")
    if isinstance(given, int | float):
        return interval_schedule(float(given), tz, now, relative=relative)
    if isinstance(given, timedelta):
        return interval_schedule(given.total_seconds(), tz, now, relative=relative)
    if type(given) is schedules.crontab:
        return crontab_schedule(_fields(given), tz, now)
    if type(given) is schedules.schedule:
        return interval_schedule(given.run_every.total_seconds(), tz, now, relative=relative or given.relative)
    if isinstance(given, schedules.solar):
        raise NeedsReview(f"{given.event} at {given.lat}, {given.lon}: {SOLAR}")
    raise NeedsReview(f"{type(given).__name__} is a schedule of your own: write its times as one of the triggers")


def _fields(given: Any) -> CronFields:
    return CronFields(
        minutes=frozenset(given.minute),
        hours=frozenset(given.hour),
        days=frozenset(given.day_of_month),
        months=frozenset(given.month_of_year),
        weekdays=frozenset(given.day_of_week),
    )


def _text(given: Any) -> str:
    if hasattr(given, "day_of_week"):
        return _fields(given).text
    seconds = given.total_seconds() if isinstance(given, timedelta) else getattr(given, "seconds", given)
    return f"every {in_words(seconds)}" if isinstance(seconds, int | float) else getattr(given, "event", str(given))
