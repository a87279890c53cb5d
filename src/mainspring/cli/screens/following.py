"""Follow a backfill or a bulk action to its end: a bar on a terminal, otherwise a line every ten seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol, TypeVar

from .output import console, note

FOLLOW_INTERVAL = 0.5
LINE_INTERVAL = 10.0


class _Record(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def total(self) -> int: ...
    @property
    def over(self) -> bool: ...


R = TypeVar("R", bound=_Record)
R_co = TypeVar("R_co", bound=_Record, covariant=True)


class _Records(Protocol[R_co]):
    """The namespace of the application that reads the records, such as `app.bulk`."""

    async def get(self, id: str) -> R_co: ...
    async def wait(self, id: str, timeout: float | None = None) -> R_co: ...


async def followed(
    records: _Records[R], record: R, line: Callable[[R], str], title: Callable[[R], str], done: Callable[[R], int]
) -> R:
    """Returns the record once it is over. The bar shows `title` and `done`; without a terminal, `line` is printed."""
    if not sys.stderr.isatty():
        while not record.over:
            record = await _waited(records, record, LINE_INTERVAL)
            if not record.over:
                note(line(record))
        return record
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    screen = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=screen, transient=True) as bar:
        task = bar.add_task(title(record), total=record.total)
        while not record.over:
            bar.update(task, description=title(record), completed=done(record), total=record.total)
            record = await _waited(records, record, FOLLOW_INTERVAL)
    return record


async def _waited(records: _Records[R], record: R, seconds: float) -> R:
    try:
        return await records.wait(record.id, timeout=seconds)
    except TimeoutError:
        return await records.get(record.id)
