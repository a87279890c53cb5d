"""Schedules of Celery, for both places that keep them: an application's settings and django-celery-beat's tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ...core.rules.importing.cron_fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    WEEKDAY,
    CronFields,
    cron_triggers,
    values_text,
)
from ...core.rules.importing.fitting import Original, fitted
from ...core.rules.importing.rows import NeedsReview, Schedule
from ...model.time.zones import known_zone
from ...model.triggers import Every
from .libraries import library

WHO = "Celery"
OWN_TASKS = frozenset({"celery.backend_cleanup"})
SOLAR = "no trigger follows the sun: use times of day, or a job that schedules its next run with once()"
FROM_THE_IMPORT = "counted from the import, as beat counts from its own start"
_ALL = frozenset(range(60)), frozenset(range(24))
_ROUNDED = {
    86_400: CronFields(minutes=frozenset({0}), hours=frozenset({0})),
    3_600: CronFields(minutes=frozenset({0}), hours=_ALL[1]),
    60: CronFields(minutes=_ALL[0], hours=_ALL[1]),
}
"""Intervals that beat rounds to the clock when they are `relative`."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CHECK, _CLOSE = timedelta(minutes=5), timedelta(hours=2)
_MOST_CHECKS = 20_000


def refuse_own_task(task: str) -> None:
    if task in OWN_TASKS:
        raise NeedsReview(f"{task} cleans Celery's own results: retention= does that here, leave it out")


def crontab_schedule(fields: CronFields, tz: str, now: datetime) -> Schedule:
    fit = fitted(cron_triggers(fields, tz), _crontab_fires(fields, tz), tz, now, WHO)
    return Schedule(trigger=fit.trigger, tz=tz, changes=(fit.difference,) if fit.difference else ())


def interval_schedule(
    seconds: float, tz: str, now: datetime, *, relative: bool = False, last_run: datetime | None = None
) -> Schedule:
    """An interval. With `last_run` it keeps its phase."""
    if relative and seconds in _ROUNDED:
        fields = _ROUNDED[int(seconds)]
        fit = fitted(cron_triggers(fields, tz), _rounded_fires(seconds, tz), tz, now, WHO)
        return Schedule(trigger=fit.trigger, tz=tz, changes=(fit.difference,) if fit.difference else ())
    changes = ("relative=True: runs are not rounded to the clock; give start= to choose the time",) if relative else ()
    if last_run is None:
        return Schedule(trigger=Every(seconds), tz=tz, changes=changes, notes=(FROM_THE_IMPORT,))
    step = timedelta(seconds=seconds)
    phase = _EPOCH + (last_run.replace(microsecond=0) - _EPOCH) % step
    return Schedule(trigger=Every(seconds, phase), tz=tz, changes=changes)


# --- what Celery would do ---------------------------------------------------------------------------------------------


def _crontab_fires(fields: CronFields, tz: str) -> Original | None:
    schedules = library("celery.schedules")
    if schedules is None:
        return None
    texts = {
        "minute": values_text(fields.minutes, MINUTE),
        "hour": values_text(fields.hours, HOUR),
        "day_of_month": values_text(fields.days, DAY),
        "month_of_year": values_text(fields.months, MONTH),
        "day_of_week": values_text(fields.weekdays, WEEKDAY),
    }
    return _fires(schedules.crontab(**texts), tz)


def _rounded_fires(seconds: float, tz: str) -> Original | None:
    schedules = library("celery.schedules")
    return None if schedules is None else _fires(schedules.schedule(timedelta(seconds=seconds), relative=True), tz)


def _fires(schedule: Any, tz: str) -> Original:
    """Beat's own loop: it asks how long it has to wait since the last run, sleeps for at most five minutes, and asks
    again."""
    zone = known_zone(tz)
    schedule.tz, schedule.utc_enabled = zone, True

    def following(last: datetime) -> datetime | None:
        at = last.astimezone(zone)
        for _ in range(_MOST_CHECKS):
            schedule.nowfun = lambda now=at: now
            left: timedelta = schedule.remaining_estimate(last.astimezone(zone))
            if left <= timedelta():
                return at.astimezone(UTC)
            nap = left if left <= _CHECK else max(_CHECK, left - _CLOSE)
            at = (at.astimezone(UTC) + nap).astimezone(zone)
        return None

    return following
