"""The part of the application object that is about named calendars."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.jobs.calendars import CalendarView
from ..model.calendars.calendar import calendar
from ..model.values.reading import identifier

if TYPE_CHECKING:
    from ..core.declaring.registry import Registry
    from .mainspring import Mainspring
    from .parts import Parts

T = TypeVar("T")


class CalendarMethods:
    registry: Registry

    if TYPE_CHECKING:

        async def _ready(self) -> Parts: ...

    def calendar(self, name: str, entries: Any) -> None:
        """Declare a calendar that jobs may name in their hours: `app.calendar("holidays", ["12-25", "2026-04-03"])`.

        `entries` are dates, days of the year, weekdays and ranges, or the text of an .ics file. It is stored when the
        application starts; what an operator set stays in force until it is reverted.
        """
        self.registry.calendars[identifier("calendar", name)] = calendar(name, entries)
        self.registry.revision += 1

    async def calendars(self) -> list[CalendarView]:
        """Every calendar that is stored, by name."""
        return await (await self._ready()).calendars.all()

    async def calendar_view(self, name: str) -> CalendarView:
        return await (await self._ready()).calendars.get(name)

    async def calendar_jobs(self, name: str) -> list[str]:
        """The jobs that name this calendar."""
        return await (await self._ready()).calendars.jobs_naming(name)

    async def set_calendar(self, name: str, entries: Any, *, by: str = "system") -> CalendarView:
        """Put a calendar in place of what is stored under its name; it stays until it is set again or reverted."""
        return await (await self._ready()).calendars.set(name, entries, by=by)

    async def revert_calendar(self, name: str, *, by: str = "system") -> CalendarView:
        """Back to what code declares."""
        return await (await self._ready()).calendars.revert(name, by=by)

    async def remove_calendar(self, name: str, *, by: str = "system") -> None:
        """Delete a calendar; refused while a job names it."""
        await (await self._ready()).calendars.remove(name, by=by)


class SyncCalendarMethods:
    """The same, blocking."""

    _app: Mainspring

    if TYPE_CHECKING:

        def _call(self, coroutine: Coroutine[Any, Any, T]) -> T: ...

    def calendars(self) -> list[CalendarView]:
        return self._call(self._app.calendars())

    def calendar_view(self, name: str) -> CalendarView:
        return self._call(self._app.calendar_view(name))

    def calendar_jobs(self, name: str) -> list[str]:
        return self._call(self._app.calendar_jobs(name))

    def set_calendar(self, name: str, entries: Any, *, by: str = "system") -> CalendarView:
        return self._call(self._app.set_calendar(name, entries, by=by))

    def revert_calendar(self, name: str, *, by: str = "system") -> CalendarView:
        return self._call(self._app.revert_calendar(name, by=by))

    def remove_calendar(self, name: str, *, by: str = "system") -> None:
        self._call(self._app.remove_calendar(name, by=by))
