"""`/api/v1/calendars`: the days and times that jobs name in their hours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from ...core.commands.idempotency import Answer
from ...core.jobs.calendars import CalendarView
from ...core.render.entities import CalendarJson, CalendarSummaryJson, calendar_json, rendered
from ...model.calendars.calendar import Block, Calendar, calendar, checked
from ...model.errors import InvalidValue
from ...model.job import Job
from ...model.values.payload import Verbatim
from ..access import GuardedRoute, Role
from ..errors import respond
from ..models.calendars import LONGEST_PROPERTY, MOST_COMPONENTS, CalendarList, CalendarSet, CalendarsJson
from ..models.commands import Empty
from ..models.lists import listed
from ..request import Call, Operating, Posting, Viewing, json
from ..responses import answers

router = APIRouter(prefix="/api/v1/calendars", tags=["calendars"], route_class=GuardedRoute)

CalendarName = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9_.-]{1,100}$", description="The calendar's name.", examples=["holidays"])
]
_ICS = "the text of an .ics file, which begins with BEGIN:VCALENDAR"


@router.get(
    "",
    operation_id="list_calendars",
    responses=answers({200: (CalendarsJson, "Calendars without their entries.")}),
)
async def list_calendars(call: Viewing, wanted: Annotated[CalendarList, Query()]) -> Response:
    """All calendars, each with the number of its entries and who set it."""
    return respond(json(listed(map(_summary, await call.engine.calendars.all()), wanted)))


@router.get(
    "/{name}",
    operation_id="get_calendar",
    responses=answers({200: (CalendarJson, "The calendar with its entries.")}, 404),
)
async def get_calendar(call: Viewing, name: CalendarName) -> Response:
    return respond(await asyncio.to_thread(_whole, await call.engine.calendars.get(name)))


@router.put(
    "/{name}",
    operation_id="set_calendar",
    responses=answers({200: (CalendarJson, "The calendar as it is now.")}),
)
async def set_calendar(call: Operating, name: CalendarName, body: CalendarSet) -> Response:
    """Store a calendar, replacing any of the same name. It stays until it is set again or reverted; schedulers
    follow within seconds. This needs the right to change every job that names the calendar."""
    blocks = await asyncio.to_thread(_blocks, name, body)  # an .ics file takes seconds to read
    with _named("entries"):
        view = await call.engine.calendars.set(name, Calendar(blocks), by=call.by, check=_check(call))
    return respond(await asyncio.to_thread(_whole, view))


@router.post(
    "/{name}/revert",
    operation_id="revert_calendar",
    responses=answers({200: (CalendarJson, "The calendar as it is now.")}, 404, 409, 422),
)
async def revert_calendar(call: Posting, name: CalendarName, body: Empty | None = None) -> Response:
    """Restore a calendar to what code declares. This needs the right to change every job that names the calendar."""

    async def work(_: str | None) -> Answer:
        return json(calendar_json(await call.engine.calendars.revert(name, by=call.by, check=_check(call))))

    return await call.once(work)


@router.delete(
    "/{name}",
    operation_id="remove_calendar",
    status_code=204,
    responses=answers({204: (None, "It is gone.")}, 404, 409),
)
async def remove_calendar(call: Operating, name: CalendarName) -> Response:
    """Remove a calendar. This is refused while a job names it. A calendar that code declares comes back at the next
    start."""
    await call.engine.calendars.remove(name, by=call.by)
    return respond(Answer(204))


def _whole(view: CalendarView) -> Answer:
    """With thousands of entries, which take long to render."""
    return json(calendar_json(view))


def _blocks(name: str, body: CalendarSet) -> tuple[Block, ...]:
    blocks: tuple[Block, ...] = ()
    if body.ics:
        if "\x00" in body.ics or not body.ics.lstrip("\ufeff \r\n").upper().startswith("BEGIN:VCALENDAR"):
            raise InvalidValue("ics", body.ics[:40], _ICS)
        if body.ics.upper().count("BEGIN:") > MOST_COMPONENTS:
            found, allowed = Verbatim(f"more than {MOST_COMPONENTS:,} events"), f"at most {MOST_COMPONENTS:,}"
            raise InvalidValue("ics", found, allowed, "Leave out years that are over, or use several calendars")
        unfolded = body.ics.replace("\r\n", "\n").replace("\n ", "").replace("\n\t", "")
        if len(longest := max(unfolded.split("\n"), key=len)) > LONGEST_PROPERTY:
            found = Verbatim(f"{longest[:30]!r}... with {len(longest):,} characters")
            allowed = f"properties of at most {LONGEST_PROPERTY:,} characters"
            raise InvalidValue("ics", found, allowed, "Leave out attachments, and divide lists of dates")
        with _named("ics"):
            blocks += calendar(name, body.ics).blocks
    if body.entries:
        with _named("entries"):
            blocks += calendar(name, body.entries).blocks
    if not blocks and not body.ics and not body.entries:
        raise InvalidValue("entries", body.entries, "at least one entry, or ics")
    with _named("entries"):
        return checked(f"calendar {name!r}", Calendar(blocks)).blocks


def _check(call: Call) -> Callable[[Job, Role], None] | None:
    """No job demands more than admin, so admins need no check."""
    return None if call.administers else call.may_steer


def _summary(view: CalendarView) -> dict[str, Any]:
    """Without the entries, of which there may be thousands."""
    return rendered(CalendarSummaryJson, view, count=len(view.calendar.blocks))


@contextmanager
def _named(field: str) -> Iterator[None]:
    """Core names the calendar when it refuses an entry; the answer names the field of the request."""
    try:
        yield
    except InvalidValue as error:
        raise error.reworded(field=field) from None
