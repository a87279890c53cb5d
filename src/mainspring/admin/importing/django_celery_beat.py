"""Periodic tasks of django-celery-beat, from its tables. Neither Django nor Celery has to be installed; Celery is asked
what it does when the clocks change, if it is there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from ...core.rules.importing.cron_fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    MONTHS,
    WEEKDAY,
    WEEKDAYS,
    CronFields,
    field_values,
)
from ...core.rules.importing.policies import celery_policy
from ...core.rules.importing.rows import ImportRow, NeedsReview, Schedule, completed, job_name, past_date
from ...model.errors import InvalidValue
from ...model.time.zones import zone, zone_name
from ...model.triggers import Every, Once
from .celery_schedules import SOLAR, crontab_schedule, interval_schedule, refuse_own_task
from .databases import rows_of_query

PREFIX = "django_celery_beat_"
KINDS = {
    "crontab": "crontabschedule",
    "interval": "intervalschedule",
    "clocked": "clockedschedule",
    "solar": "solarschedule",
}
"""The kinds of schedule, and their tables."""
_SECONDS = {"days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0, "microseconds": 1e-6}
_OPTIONS = ("queue", "exchange", "routing_key", "priority", "headers")

Row = Mapping[str, Any]


class PeriodicTask(msgspec.Struct, frozen=True):
    """A row of the table of periodic tasks, and the row of its schedule."""

    task: Row
    kind: str
    schedule: Row


def periodic_tasks(url: str) -> list[PeriodicTask]:
    tasks = rows_of_query(url, f"SELECT * FROM {PREFIX}periodictask ORDER BY id")
    used = [kind for kind in KINDS if any(task.get(f"{kind}_id") is not None for task in tasks)]
    schedules = {kind: _by_id(url, KINDS[kind]) for kind in used}
    return [_with_schedule(task, schedules) for task in tasks]


def _by_id(url: str, table: str) -> dict[int, Row]:
    return {row["id"]: row for row in rows_of_query(url, f"SELECT * FROM {PREFIX}{table}")}


def _with_schedule(task: Row, schedules: Mapping[str, Mapping[int, Row]]) -> PeriodicTask:
    for kind, rows in schedules.items():
        if (found := rows.get(task[f"{kind}_id"])) is not None:
            return PeriodicTask(task, kind, found)
    return PeriodicTask(task, "", {})


def periodic_task_rows(tasks: list[PeriodicTask], now: datetime) -> list[ImportRow]:
    return [_row(each, now) for each in tasks]


def _row(found: PeriodicTask, now: datetime) -> ImportRow:
    task = found.task
    row = ImportRow(
        source=f"id {task['id']}",
        name=job_name(task["name"]),
        schedule=_text(found),
        task=task["task"],
        enabled=bool(task["enabled"]),
    )
    return completed(row, lambda row: _complete(row, found, now))


def _complete(row: ImportRow, found: PeriodicTask, now: datetime) -> ImportRow:
    task = found.task
    refuse_own_task(task["task"])
    _refuse_bounds(task, found.kind, now)
    schedule = _schedule(found, now)
    given = {name: task.get(name) for name in _OPTIONS}
    given["headers"] = _json("headers", given["headers"], {})
    given["expires"] = task.get("expire_seconds")
    options, changes = celery_policy(given)
    return msgspec.structs.replace(
        row,
        trigger=schedule.trigger,
        tz=schedule.tz,
        args=tuple(_json("args", task["args"], [])),
        params=_json("kwargs", task["kwargs"], {}),
        options=options,
        changes=(*schedule.changes, *changes),
        notes=schedule.notes,
    )


def _refuse_bounds(task: Row, kind: str, now: datetime) -> None:
    """Refuse what runs only once at a time to come, begins later, or ends."""
    start, expires = _instant(task.get("start_time")), _instant(task.get("expires"))
    if expires is not None:
        ending = (
            "has ended" if expires <= now else "will end, but a schedule has no end: create the job, and remove it then"
        )
        raise NeedsReview(f"expires={expires:%Y-%m-%d %H:%M} UTC: it {ending}")
    if task.get("one_off") and kind != "clocked":
        raise NeedsReview("one_off: it runs once, at its next time; enqueue it with start_at=, or give it once()")
    if start is not None and start > now and kind != "interval":
        raise NeedsReview(f"start_time={start:%Y-%m-%d %H:%M} UTC: import it then, or create it disabled until then")


def _schedule(found: PeriodicTask, now: datetime) -> Schedule:
    row = found.schedule
    if found.kind == "crontab":
        tz = zone_name(zone("timezone", str(row.get("timezone") or "UTC")))
        return crontab_schedule(_fields(row), tz, now)
    if found.kind == "interval":
        return _interval(found, now)
    if found.kind == "clocked":
        at = _instant(row["clocked_time"])
        assert at is not None, "the column is never empty"
        if at <= now:
            raise past_date(at)
        return Schedule(trigger=Once(at), tz="UTC")
    if found.kind == "solar":
        raise NeedsReview(f"{row['event']} at {row['latitude']}, {row['longitude']}: {SOLAR}")
    raise NeedsReview("it has no schedule: delete it, or give it one")


def _interval(found: PeriodicTask, now: datetime) -> Schedule:
    seconds = found.schedule["every"] * _SECONDS[found.schedule["period"]]
    start = _instant(found.task.get("start_time"))
    if start is not None and start > now:
        return Schedule(trigger=Every(seconds, start), tz="UTC")
    return interval_schedule(seconds, "UTC", now, last_run=_instant(found.task.get("last_run_at")))


def _fields(row: Row) -> CronFields:
    return CronFields(
        minutes=field_values("minute", row["minute"], MINUTE),
        hours=field_values("hour", row["hour"], HOUR),
        days=field_values("day_of_month", row["day_of_month"], DAY),
        months=field_values("month_of_year", row["month_of_year"], MONTH, MONTHS),
        weekdays=field_values("day_of_week", row["day_of_week"], WEEKDAY, WEEKDAYS),
    )


def _text(found: PeriodicTask) -> str:
    row = found.schedule
    if found.kind == "crontab":
        fields = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
        return " ".join(str(row[name]) for name in fields)
    if found.kind == "interval":
        return f"every {row['every']} {row['period']}"
    return f"{found.kind} {row.get('clocked_time') or row.get('event') or ''}".strip()


def _json(field: str, text: Any, kind: Any) -> Any:
    try:
        found = json.loads(text) if isinstance(text, str) and text else kind
    except ValueError:
        found = None
    if not isinstance(found, type(kind)):
        raise InvalidValue(field, text, "a JSON list" if kind == [] else "a JSON object")
    return found


def _instant(value: Any) -> datetime | None:
    """SQLite has no type for it: Django writes UTC without an offset there."""
    if value is None or value == "":
        return None
    at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
