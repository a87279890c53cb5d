"""Jobs of rq-scheduler, from its Redis server. RQ itself does not have to be installed.

Functions, arguments and schedules are pickles, but nearly always of plain data, which is read without running code.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import msgspec

from ...core.rules.importing.cron_fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    MONTHS,
    SECOND,
    WEEKDAYS,
    CronFields,
    cron_triggers,
    field_values,
)
from ...core.rules.importing.fitting import Original, fitted
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
from ...model.errors import ConfigurationError
from ...model.time.zones import known_zone, zone, zone_name
from ...model.triggers import Every, Once
from ...model.triggers.cron import ALIASES
from ...model.values.reading import is_identifier
from .databases import redis_client
from .libraries import library
from .pickles import stored_data

WHO = "rq-scheduler"
SCHEDULED, JOB = "rq:scheduler:scheduled_jobs", "rq:job:"
_RANDOM_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_POLL = timedelta(minutes=1)


class ScheduledJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as Redis has it. With an `error` its data could not be read."""

    id: str
    at: datetime
    """When rq-scheduler will enqueue it next."""
    description: str = ""
    queue: str = ""
    timeout: float | None = None
    task: str = ""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    meta: Mapping[str, Any] = {}
    error: str | None = None


# --- reading ----------------------------------------------------------------------------------------------------------


def scheduled_jobs(url: str, trust: bool = False) -> list[ScheduledJob]:
    with redis_client(url) as client:
        members: list[tuple[bytes, float]] = client.zrange(SCHEDULED, 0, -1, withscores=True)  # type: ignore[assignment]
        found = [(id.decode(), at, client.hgetall(JOB + id.decode())) for id, at in members]
        return [_job(id, at, stored, trust) for id, at, stored in found]  # type: ignore[arg-type]


def _job(id: str, at: float, stored: Mapping[bytes, bytes], trust: bool) -> ScheduledJob:
    job = ScheduledJob(
        id=id,
        at=datetime.fromtimestamp(at, UTC),
        description=stored.get(b"description", b"").decode(),
        queue=stored.get(b"origin", b"").decode(),
        timeout=_timeout(stored.get(b"timeout")),
    )
    try:
        if b"data" not in stored:
            raise NeedsReview("its data is gone from Redis: rq-scheduler would drop it too")
        task, instance, args, kwargs = stored_data(_inflated(stored[b"data"]), trust)
        meta = stored_data(stored[b"meta"], trust) if b"meta" in stored else {}
    except (ConfigurationError, NeedsReview) as error:
        return msgspec.structs.replace(job, error=str(error))
    if instance is not None:
        return msgspec.structs.replace(job, task=task, error="it calls a method of a stored object: write a handler")
    return msgspec.structs.replace(job, task=task, args=tuple(args), kwargs=kwargs, meta=meta)


def _timeout(text: bytes | None) -> float | None:
    try:
        seconds = float(text or 0)
    except ValueError:
        return None
    return seconds if seconds > 0 else None


def _inflated(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:
        return data


# --- rows -------------------------------------------------------------------------------------------------------------


def scheduled_rows(jobs: list[ScheduledJob], tz: str, now: datetime) -> list[ImportRow]:
    """`tz`: the zone of the machine that rq-scheduler runs on, whose clock its cron follows."""
    names = numbered([_name(job) for job in jobs])
    return [_row(job, name, tz, now) for job, name in zip(jobs, names, strict=True)]


def _name(job: ScheduledJob) -> str:
    if _RANDOM_ID.fullmatch(job.id) and job.task:
        return name_by_work(job.task, job.args, job.kwargs)
    return job_name(job.id)


def _row(job: ScheduledJob, name: str, tz: str, now: datetime) -> ImportRow:
    row = ImportRow(
        source=job.id if len(job.id) <= 20 else f"{job.id[:8]}...",
        name=name,
        schedule=_text(job),
        task=job.task or None,
        args=job.args,
        params=job.kwargs,
        reason=job.error,
    )
    return row if job.error else completed(row, lambda row: _complete(row, job, tz, now))


def _complete(row: ImportRow, job: ScheduledJob, tz: str, now: datetime) -> ImportRow:
    if job.meta.get("repeat") is not None:
        raise NeedsReview(f"it repeats {job.meta['repeat']} more times, then ends: enqueue those runs with start_at=")
    schedule = _schedule(job, zone_name(zone("timezone", tz)), now)
    options: dict[str, Any] = {"overlap": "allow", "missed": "latest"}
    changes = list(schedule.changes)
    if is_identifier(job.queue):
        options["queue"] = job.queue
    elif job.queue:
        changes.append(f"the queue {job.queue!r} is not kept: its name has characters that a queue's cannot have")
    if job.timeout is not None:
        options["timeout"] = job.timeout
    return msgspec.structs.replace(
        row,
        trigger=schedule.trigger,
        tz=schedule.tz,
        options=options,
        changes=tuple(changes),
        notes=schedule.notes,
    )


def _schedule(job: ScheduledJob, tz: str, now: datetime) -> Schedule:
    if expression := job.meta.get("cron_string"):
        fields = cron_fields(expression)
        fit = fitted(cron_triggers(fields, tz), _fires(expression, tz), tz, now, WHO)
        return Schedule(trigger=fit.trigger, tz=tz, changes=(fit.difference,) if fit.difference else ())
    if interval := job.meta.get("interval"):
        step = timedelta(seconds=int(interval))
        phase = job.at if job.at > now + step else _EPOCH + (job.at - _EPOCH) % step
        return Schedule(trigger=Every(int(interval), phase), tz=tz)
    if job.at <= now:
        raise past_date(job.at)
    return Schedule(trigger=Once(job.at), tz=tz)


def cron_fields(expression: str) -> CronFields:
    """Five fields, a sixth for the year, or seven with the seconds first. All of them have to match."""
    parts = ALIASES.get(expression.lower(), expression).split()
    if len(parts) not in (5, 6, 7):
        raise NeedsReview(f"{expression!r} has {len(parts)} fields: write it as cron of five")
    seconds = parts.pop(0) if len(parts) == 7 else "0"
    minute, hour, day, month, weekday, *year = parts
    if year not in ([], ["*"]):
        raise NeedsReview(f"{expression!r} names a year: write its dates with once() or any_of()")
    return CronFields(
        seconds=field_values("second", seconds, SECOND),
        minutes=field_values("minute", minute, MINUTE),
        hours=field_values("hour", hour, HOUR),
        days=frozenset(range(1, 32)) if day.lower() in ("l", "?") else field_values("day", day, DAY),
        day="L" if day.lower() == "l" else "",
        months=field_values("month", month, MONTH, MONTHS),
        weekdays=_weekdays(weekday),
    )


def _weekdays(text: str) -> frozenset[int]:
    """0 and 7 are Sunday, also at the end of a range."""
    if text == "?":
        return frozenset(range(7))
    plain = re.sub(r"-(0|sun)\b", "-7", text.lower())
    return frozenset(day % 7 for day in field_values("day of week", plain, (0, 7 if plain != "*" else 6), WEEKDAYS))


def _fires(expression: str, tz: str) -> Original | None:
    """As rq-scheduler computes them: by the wall clock, without an offset. Python takes a time that the clocks skip for
    an earlier instant, which may be past; then rq-scheduler runs the job each time it looks, once a minute."""
    crontab = library("crontab")
    if crontab is None or hasattr(crontab, "CronSlices"):  # that is another package, whose module has the same name
        return None
    rule, here = crontab.CronTab(expression), known_zone(tz)

    def following(after: datetime) -> datetime | None:
        local = after.astimezone(here).replace(tzinfo=None)
        found = rule.next(now=local, default_utc=False, return_datetime=True)
        at = None if found is None else _instant(found, here)
        return after + _POLL if at is not None and at <= after else at

    return following


def _instant(local: datetime, here: tzinfo) -> datetime:
    at = local.replace(tzinfo=here).astimezone(UTC)
    skipped = at.astimezone(here).replace(tzinfo=None) != local
    return local.replace(tzinfo=here, fold=1).astimezone(UTC) if skipped else at


def _text(job: ScheduledJob) -> str:
    if expression := job.meta.get("cron_string"):
        return str(expression)
    if interval := job.meta.get("interval"):
        return f"every {interval} s"
    return f"once {job.at:%Y-%m-%d %H:%M}"
