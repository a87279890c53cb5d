"""Calendars as plain data, for the command line and the server alike."""

from __future__ import annotations

from typing import Any

from .calendars import CalendarView
from .shapes import instant_text


def calendar_shape(view: CalendarView) -> dict[str, Any]:
    """As plain data, with the field names of the HTTP interface."""
    return {
        "name": view.name,
        "origin": view.origin,
        "declared": view.declared,
        "updated_by": view.by,
        "updated_at": instant_text(view.updated_at),
        "entries": [{"entry": block.text(), "label": block.label} for block in view.calendar.blocks],
    }
