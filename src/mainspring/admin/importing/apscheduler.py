"""Jobs of APScheduler 3: of a scheduler object, or of a job store in SQL, Redis or MongoDB.

A job store holds pickles, which name APScheduler's classes at least: they are read only if the user trusts them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec

from ...app.import_path import load_object
from ...core.rules.importing.cron_fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    MONTHS,
    SECOND,
    WEEKDAY,
    CronFields,
    combined,
    cron_triggers,
    field_values,
)
from ...core.rules.importing.fitting import Fit, Original, fitted
from ...core.rules.importing.policies import USUAL_GRACE, apscheduler_policy
from ...core.rules.importing.rows import (
    ImportRow,
    NeedsReview,
    Schedule,
    completed,
    job_name,
    name_by_work,
    numbered,
    past_date,
)
from ...model.errors import ConfigurationError, InvalidValue, StoreError
from ...model.time.zones import zone, zone_name
from ...model.triggers import Every, Once, Trigger
from ...model.values.database_url import without_password
from ...model.values.url_secrets import without_secrets_of
from .databases import is_redis, redis_client, rows_of_query
from .pickles import stored_data

WHO = "APScheduler"
TABLE, JOBS_KEY, DATABASE, COLLECTION = "apscheduler_jobs", "apscheduler.jobs", "apscheduler", "jobs"
"""Where the job stores keep their jobs, unless they are told otherwise."""

_RANDOM_ID = re.compile(r"[0-9a-f]{32}")
_WEEKDAYS = {name: at for at, name in enumerate(["mon", "tue", "wed", "thu", "fri", "sat", "sun"])}
_POSITION = re.compile(r"(1st|2nd|3rd|4th|5th|last) (\w+)")
_UNSET: Any = object()


class StoredJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of APScheduler, whether it comes from a scheduler or from a job store."""

    id: str
    name: str
    task: str
    trigger: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    grace: int | None
    coalesce: bool
    instances: int
    executor: str
    paused: bool
    declared: bool = False
    """It was declared in code a moment ago: an interval that names no start is counted from then."""


class UnreadableJob(msgspec.Struct, frozen=True):
    """A job of a job store whose data could not be read, and why."""

    id: str
    error: str


FoundJob: TypeAlias = StoredJob | UnreadableJob

# --- reading ----------------------------------------------------------------------------------------------------------


def apscheduler_jobs(source: str, *, table: str = TABLE, trust: bool = False) -> list[FoundJob]:
    """The jobs of `MODULE:SCHEDULER`, or of the job store at an address."""
    if "://" not in source:
        return _of_scheduler(source)
    if not trust:
        raise ConfigurationError(
            f"the jobs at {without_password(source)} are pickles, and reading them runs code that they name: "
            "add --trust-pickles if you trust everyone who can write there, or import from --from MODULE:SCHEDULER"
        )
    return [_stored_job(id, data, trust) for id, data in _pickles(source, table)]


def _of_scheduler(source: str) -> list[FoundJob]:
    scheduler = load_object(source, "--from")
    if not callable(getattr(scheduler, "get_jobs", None)):
        raise InvalidValue("--from", source, "a scheduler of APScheduler 3", f"It is a {type(scheduler).__name__}")
    return [_of_job(job) for job in scheduler.get_jobs()]


def _of_job(job: Any) -> StoredJob:
    """A job that was not added to its store yet has no values where nobody gave any."""
    return StoredJob(
        id=job.id,
        name=job.name,
        task=job.func_ref or job.name,
        trigger=job.trigger,
        args=tuple(job.args),
        kwargs=job.kwargs,
        grace=getattr(job, "misfire_grace_time", USUAL_GRACE),
        coalesce=getattr(job, "coalesce", True),
        instances=getattr(job, "max_instances", 1),
        executor=getattr(job, "executor", "default"),
        paused=getattr(job, "next_run_time", _UNSET) is None,
        declared=True,
    )


def _stored_job(id: str, data: bytes, trust: bool) -> FoundJob:
    try:
        return _of_state(stored_data(bytes(data), trust))
    except (ConfigurationError, KeyError, TypeError) as error:
        return UnreadableJob(id, str(error))


def _of_state(state: Mapping[str, Any]) -> StoredJob:
    return StoredJob(
        id=state["id"],
        name=state["name"],
        task=state["func"],
        trigger=state["trigger"],
        args=tuple(state["args"]),
        kwargs=state["kwargs"],
        grace=state["misfire_grace_time"],
        coalesce=state["coalesce"],
        instances=state["max_instances"],
        executor=state["executor"],
        paused=state["next_run_time"] is None,
    )


def _pickles(url: str, table: str) -> list[tuple[str, bytes]]:
    """The id and the pickle of each job."""
    if is_redis(url):
        with redis_client(url) as client:
            found: dict[bytes, bytes] = client.hgetall(JOBS_KEY)  # type: ignore[assignment]  # it is no async client
            return [(id.decode(), found[id]) for id in sorted(found)]
    if url.startswith(("mongodb://", "mongodb+srv://")):
        return _from_mongo(url)
    if not url.startswith(("sqlite", "postgres")):
        known = "sqlite:///, postgresql://, redis:// or mongodb://, or MODULE:SCHEDULER"
        raise InvalidValue("--from", without_password(url), known)
    if not re.fullmatch(r"\w+(\.\w+)?", table):
        raise InvalidValue("--table", table, "the name of a table")
    rows = rows_of_query(url, f"SELECT id, job_state FROM {table} ORDER BY id")
    return [(row["id"], row["job_state"]) for row in rows]


def _from_mongo(url: str) -> list[tuple[str, bytes]]:
    from pymongo import MongoClient
    from pymongo.errors import PyMongoError

    try:
        with MongoClient[dict[str, Any]](url, serverSelectionTimeoutMS=10_000) as client:
            collection = client.get_default_database(DATABASE)[COLLECTION]
            return [(each["_id"], each["job_state"]) for each in collection.find().sort("_id")]
    except PyMongoError as error:
        raise StoreError(f"{without_password(url)}: {without_secrets_of(url, str(error))}") from error


# --- rows -------------------------------------------------------------------------------------------------------------


def apscheduler_rows(jobs: Iterable[FoundJob], now: datetime) -> list[ImportRow]:
    listed = list(jobs)
    names = numbered([_name(job) for job in listed])
    return [_row(job, name, now) for job, name in zip(listed, names, strict=True)]


def _name(job: FoundJob) -> str:
    """A random id says nothing, and a new process gives another one."""
    if isinstance(job, StoredJob) and _RANDOM_ID.fullmatch(job.id):
        return name_by_work(job.task, job.args, job.kwargs)
    return job_name(job.id)


def _row(job: FoundJob, name: str, now: datetime) -> ImportRow:
    source = job.id if len(job.id) <= 20 else f"{job.id[:8]}..."
    if isinstance(job, UnreadableJob):
        return ImportRow(source=source, name=name, schedule="-", reason=job.error)
    row = ImportRow(
        source=source,
        name=name,
        schedule=str(job.trigger),
        task=job.task,
        args=job.args,
        params=job.kwargs,
        enabled=not job.paused,
    )
    return completed(row, lambda row: _complete(row, job, now))


def _complete(row: ImportRow, job: StoredJob, now: datetime) -> ImportRow:
    schedule = _schedule(job.trigger, now, job.declared)
    trigger, jitter = schedule.trigger, getattr(job.trigger, "jitter", None)
    options, changes = apscheduler_policy(job.grace, job.coalesce, job.instances, trigger.period(now))
    if jitter:
        trigger = trigger.jitter(jitter)
        changes.append(f"jitter={jitter}: runs are up to {jitter} s late as before, each by a part that never varies")
    if job.executor != "default":
        changes.append(f"executor={job.executor!r} is not kept: isolation='process' runs a handler in its own process")
    return msgspec.structs.replace(
        row,
        trigger=trigger,
        tz=schedule.tz,
        options=options,
        changes=(*schedule.changes, *changes),
        notes=schedule.notes,
    )


# --- triggers ---------------------------------------------------------------------------------------------------------


def _schedule(trigger: Any, now: datetime, declared: bool) -> Schedule:
    """By the name of its class: a job store may hold triggers of classes that this process does not know."""
    kind = type(trigger).__name__
    if kind == "CronTrigger":
        return _cron(trigger, now)
    if kind == "IntervalTrigger":
        return _interval(trigger, now, declared)
    if kind == "DateTrigger":
        return _date(trigger, now)
    if kind == "CalendarIntervalTrigger":
        return _calendar_interval(trigger, now)
    if kind == "OrTrigger":
        return _or(trigger, now, declared)
    if kind == "AndTrigger":
        raise NeedsReview(f"{trigger}: no trigger fires when several agree; write the common times as one cron")
    raise NeedsReview(f"{kind} is not a trigger of APScheduler 3; write its times as one of Mainspring's triggers")


def _cron(trigger: Any, now: datetime) -> Schedule:
    _refuse_bounds(trigger, now)
    texts = {field.name: str(field) for field in trigger.fields}
    for name in ("year", "week"):
        if texts[name] != "*":
            raise NeedsReview(f"{name}={texts[name]!r}: cron has no such field; write the dates with any_of()")
    tz = _zone(trigger)
    choices = [cron_triggers(fields, tz) for fields in _fields(texts)]
    candidates = [combined(triggers) for triggers in zip(*choices, strict=True)]
    return _fitted(candidates, trigger, tz, now)


def _fields(texts: Mapping[str, str]) -> list[CronFields]:
    """One for the days by number, one for the last day of the month, and one for days such as the second Friday."""
    weekdays = field_values("day_of_week", texts["day_of_week"], WEEKDAY, _WEEKDAYS)
    base = CronFields(
        seconds=field_values("second", texts["second"], SECOND),
        minutes=field_values("minute", texts["minute"], MINUTE),
        hours=field_values("hour", texts["hour"], HOUR),
        months=field_values("month", texts["month"], MONTH, MONTHS),
        weekdays=frozenset((day + 1) % 7 for day in weekdays),
    )
    terms = texts["day"].split(",")
    positions = [_position(match) for term in terms if (match := _POSITION.fullmatch(term))]
    numbers = [term for term in terms if term != "last" and not _POSITION.fullmatch(term)]
    found = []
    if numbers:
        days = field_values("day", ",".join(numbers), DAY)
        found.append(msgspec.structs.replace(base, days=days))
    if "last" in terms:
        found.append(msgspec.structs.replace(base, day="L"))
    if positions:
        if texts["day_of_week"] != "*":
            raise NeedsReview("day and day_of_week both name weekdays; keep one of them")
        found.append(msgspec.structs.replace(base, weekday=",".join(positions)))
    return found


def _position(match: re.Match[str]) -> str:
    day = (_WEEKDAYS[match[2].lower()] + 1) % 7
    return f"{day}L" if match[1] == "last" else f"{day}#{match[1][0]}"


def _interval(trigger: Any, now: datetime, declared: bool) -> Schedule:
    if trigger.end_date is not None:
        raise _ends(trigger.end_date)
    seconds = trigger.interval.total_seconds()
    if declared and trigger.start_date.microsecond:  # nobody writes that: it is the moment of the declaration
        note = "counted from the import, as APScheduler counts from the start of its process"
        return Schedule(trigger=Every(seconds), tz=_zone(trigger), notes=(note,))
    return Schedule(trigger=Every(seconds, trigger.start_date), tz=_zone(trigger))


def _date(trigger: Any, now: datetime) -> Schedule:
    if trigger.run_date <= now:
        raise past_date(trigger.run_date)
    return Schedule(trigger=Once(trigger.run_date), tz=zone_name(zone("timezone", trigger.run_date.tzinfo)))


def _calendar_interval(trigger: Any, now: datetime) -> Schedule:
    """Periods of the calendar that cron can write: a day, a week, a month or a part of the year."""
    _refuse_bounds(trigger, now)
    state = trigger.__getstate__()
    (years, months, weeks, days), (hour, minute, second) = state["interval"], state["time"]
    start, tz = trigger.start_date, _zone(trigger)
    base = CronFields(seconds=frozenset({second}), minutes=frozenset({minute}), hours=frozenset({hour}))
    match (years, months, weeks, days):
        case (0, 0, 0, 1):
            fields = base
        case (0, 0, 1, 0) | (0, 0, 0, 7):
            fields = msgspec.structs.replace(base, weekdays=frozenset({start.isoweekday() % 7}))
        case (0, _, 0, 0) | (1, 0, 0, 0) if 12 % (months or 12) == 0:
            every = frozenset(month for month in range(1, 13) if (month - start.month) % (months or 12) == 0)
            fields = msgspec.structs.replace(base, days=frozenset({start.day}), months=every)
        case _:
            raise NeedsReview(f"{trigger}: cron cannot count such a period; write the dates with any_of(), or every()")
    return _fitted(cron_triggers(fields, tz), trigger, tz, now)


def _or(trigger: Any, now: datetime, declared: bool) -> Schedule:
    parts = [_schedule(each, now, declared) for each in trigger.triggers]
    whole = combined([each.trigger.with_zone(each.tz or "UTC") for each in parts])
    tz = parts[0].tz or "UTC"
    changes = tuple(change for each in parts for change in each.changes)
    if any(isinstance(each.trigger, Every) for each in parts):
        change = "an interval beside other triggers: APScheduler counts it from the last run of any, any_of() by itself"
        return Schedule(trigger=whole, tz=tz, changes=(*changes, change))
    fit = fitted([whole], _fires(trigger), tz, now, WHO)
    return Schedule(trigger=whole, tz=tz, changes=changes or _changes(fit))


def _fitted(candidates: list[Trigger], trigger: Any, tz: str, now: datetime) -> Schedule:
    fit = fitted(candidates, _fires(trigger), tz, now, WHO)
    return Schedule(trigger=fit.trigger, tz=tz, changes=_changes(fit))


def _changes(fit: Fit) -> tuple[str, ...]:
    return (fit.difference,) if fit.difference else ()


def _fires(trigger: Any) -> Original:
    """The fires of the trigger itself, but without jitter. As in its scheduler, each follows from the one before as the
    trigger gave it: a time that the clocks skip is not the same in UTC and back."""
    steady = copy.copy(trigger)
    steady.jitter = None
    given: dict[datetime, datetime] = {}

    def following(after: datetime) -> datetime | None:
        local = given.get(after.astimezone(UTC), after.astimezone(getattr(trigger, "timezone", UTC)))
        found: datetime | None = steady.get_next_fire_time(local, local)
        if found is not None:
            given[found.astimezone(UTC)] = found
        return found

    return following


def _zone(trigger: Any) -> str:
    return zone_name(zone("timezone", trigger.timezone))


def _refuse_bounds(trigger: Any, now: datetime) -> None:
    """Refuse a schedule that begins later or ends: a job of Mainspring with cron does neither."""
    start, local = trigger.start_date, now.astimezone(trigger.timezone)
    begins = start is not None and (start > local if isinstance(start, datetime) else start > local.date())
    if trigger.end_date is not None:
        raise _ends(trigger.end_date)
    if begins:
        raise NeedsReview(f"it begins at {start}: import it then, or create it disabled and enable it then")


def _ends(end: Any) -> NeedsReview:
    return NeedsReview(f"it ends at {end}, but a schedule has no end: create the job by hand and remove it then")
