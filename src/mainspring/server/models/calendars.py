"""Requests that set a calendar, and lists of calendars."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from ...core.render.entities import CalendarSummaryJson
from .fields import NO_NUL, Strict
from .lists import ShortList, ShortListJson

MOST_ENTRIES = 2_000
MOST_ICS = 900_000
MOST_COMPONENTS = 2_000
"""Events and other parts of an .ics file."""
LONGEST_PROPERTY = 50_000
"""Characters of one property of an .ics file: three thousand excluded dates. Reading a longer one holds the
interpreter."""


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


class CalendarList(ShortList):
    origin: Literal["code", "operator"] | None = None
    sort: Literal["name", "-name", "updated_at", "-updated_at"] = "name"


class CalendarsJson(ShortListJson):
    items: list[CalendarSummaryJson]
