"""What requests about calendars, tokens, occurrences, windows and the audit may say. As strict as `models`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from ...core.monitoring.missed_runs import MissedReason
from ...model.values.access import Role
from .commands import MOST_PER_PAGE, NO_NUL, PAGE, Cursor, Instant, Name, Offset, Short, Strict

MOST_ENTRIES = 5_000
MOST_ICS = 900_000
LocalTime = Annotated[
    str, Field(min_length=1, max_length=64, description="ISO 8601; without an offset, in the zone of the job.")
]


class AuditList(Strict):
    model_config = ConfigDict(strict=False)

    target: Annotated[Short | None, Field(description="Such as job:crawl or lock:import.")] = None
    actor: Short | None = None
    action: Short | None = None
    request_id: Short | None = None
    sort: Annotated[Literal["-at", "at"], Field(description="Newest first, or oldest first.")] = "-at"
    since: Annotated[Instant | None, Field(description="At this time or later.")] = None
    until: Annotated[Instant | None, Field(description="Before this time.")] = None
    limit: Annotated[int, Field(ge=1, le=MOST_PER_PAGE)] = PAGE
    offset: Offset = 0
    cursor: Cursor | None = None


class MissedRunList(Strict):
    model_config = ConfigDict(strict=False)

    job: Name | None = None
    reason: Annotated[
        MissedReason | None,
        Field(description="Nobody who schedules was heard of; or somebody was, and had not made the runs happen."),
    ] = None
    since: Annotated[Instant | None, Field(description="First missed at this time or later.")] = None
    until: Annotated[Instant | None, Field(description="First missed before this time.")] = None
    limit: Annotated[int, Field(ge=1, le=MOST_PER_PAGE)] = PAGE
    offset: Offset = 0
    cursor: Annotated[str | None, Field(min_length=1, max_length=100, pattern=NO_NUL)] = None


class CalendarSet(Strict):
    """Entries, the text of an .ics file, or both together."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"entries": ["12-25", "2026-04-03", "sat-sun", "2026-12-24/2027-01-02"]}],
            "anyOf": [{"required": ["entries"]}, {"required": ["ics"]}],
        }
    )

    entries: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=200, pattern=NO_NUL)], ...],
        Field(strict=False, min_length=1, max_length=MOST_ENTRIES, description="Dates, weekdays and ranges of them."),
    ] = ()
    # Without a pattern: tools that read the document spend seconds on one of so long a text. The route looks for NUL.
    ics: Annotated[str, Field(min_length=1, max_length=MOST_ICS)] = ""


class TokenCreate(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ci", "role": "operator", "expires": "90d"}]})

    name: Name
    role: Annotated[Role, Field(strict=False)]
    expires: Annotated[
        str | None, Field(min_length=1, max_length=32, description='How long it is good for, such as "90d".')
    ] = None


class OccurrenceAt(Strict):
    """One run of the schedule, by the time at which it is due."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"at": "2026-12-24T03:00:00Z"}]})

    at: LocalTime


class OccurrenceMove(OccurrenceAt):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"at": "2026-12-24T03:00:00Z", "to": "2026-12-23T22:00:00Z"}]}
    )

    to: LocalTime


class WindowList(Strict):
    model_config = ConfigDict(strict=False)

    begin: Instant | None = None
    end: Instant | None = None
    state: Literal["done", "failed", "missing", "running"] | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_PER_PAGE)] = PAGE
    offset: Annotated[int, Field(ge=0, le=100_000)] = 0


class SysJobList(Strict):
    model_config = ConfigDict(strict=False)

    limit: Annotated[
        int | None, Field(ge=1, le=MOST_PER_PAGE, description="At most so many; all of them if it is left out.")
    ] = None
    cursor: Annotated[
        str | None, Field(min_length=1, max_length=100, pattern=NO_NUL, description="The id of the last job you have.")
    ] = None
