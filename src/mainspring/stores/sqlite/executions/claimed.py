"""What this process has claimed and not settled yet, so that the usual ending need not be read again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ....model.execution import ExecutionRow, State
from ....model.store.messages import Change

MOST = 10_000


Ending: TypeAlias = tuple[int, ExecutionRow, Change]
"""The `seq` of a row, the row as it was claimed, and what is to become of it."""


class ClaimedRows:
    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, ExecutionRow]] = {}

    def remember(self, rows: Iterable[tuple[int, ExecutionRow]]) -> None:
        """After the commit of the claim. The oldest are forgotten first."""
        self._rows.update({found[1].id: found for found in rows})
        while len(self._rows) > MOST:
            del self._rows[next(iter(self._rows))]

    def take(self, changes: Sequence[Change]) -> list[Ending]:
        """The usual endings among these changes, as far as this process knows; the database has the last word."""
        if len({change.id for change in changes}) < len(changes):
            return []  # what follows a change of the same row has to see it
        known = [(change, self._rows.pop(change.id, None)) for change in changes]
        return [(found[0], found[1], change) for change, found in known if found and _usual(found[1], change)]


def _usual(row: ExecutionRow, change: Change) -> bool:
    """It ran once, completed, and is kept."""
    return (
        change.to is State.COMPLETED
        and row.token == 1
        and change.token == 1
        and change.owner == row.owner
        and change.expect is State.RUNNING
        and change.started is None
        and change.audit is None
        and (change.keep or change.todo)
        and not (change.rescue or change.alone)
    )
