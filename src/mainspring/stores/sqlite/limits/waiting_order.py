"""The order in which rows wait: tags of ready rows in their lane, places of parked rows in their wait line.

Shares take turns in both (`common.limits.next_tag`). A row that was woken keeps its line and place until it is claimed
or changed: parked there again, it has the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Literal, NamedTuple, TypeAlias

from ....model.execution import ExecutionRow
from ....model.limits import Limit
from ...common.limits import Wait, limit_with, next_tag, numbers_in, wait_of
from ..executions.rows import Row, lane_of
from ..transaction import Transaction, as_json

Untagged: TypeAlias = tuple[int, str, int, str, int, str]
"""A row whose time has come: seq, lane, priority, share, weight and id."""

_id = itemgetter(-1)


class Turns:
    """Gives the tags of a lane, or the places of a wait line, one after another.

    The smallest number of each group (a priority in a lane or line), and the greatest of each share in it, are read
    once and kept up to date while a batch of rows is added.
    """

    def __init__(self, tx: Transaction, kind: Literal["tag", "place"]) -> None:
        self._tx, self._kind = tx, kind
        self._smallest: dict[Row, int | None] = {}
        self._greatest: dict[Row, int | None] = {}

    def give(self, group: Row, share: str, weight: int, kept: int | None = None) -> int:
        """The number of the next row of this share; `kept` if the row comes back with the number it had."""
        own = (*group, share)
        if group not in self._smallest:
            self._smallest[group] = self._tx.value(f"{self._kind}_smallest", *group)
        if own not in self._greatest:
            self._greatest[own] = self._tx.value(f"{self._kind}_greatest", *own)
        smallest, greatest = self._smallest[group], self._greatest[own]
        number = next_tag(smallest, greatest, weight) if kept is None else kept
        self._smallest[group] = number if smallest is None else min(smallest, number)
        self._greatest[own] = number if greatest is None else max(greatest, number)
        return number


def give_tags(tx: Transaction, rows: Sequence[Untagged]) -> None:
    """Make rows with a share ready."""
    if rows:
        tx.run("tag_rows", as_json(list(next_tags(tx, rows).items())))


def next_tags(tx: Transaction, rows: Sequence[Untagged]) -> dict[int, int]:
    """The tag of each row by its seq, given in the order of their ids."""
    turns = Turns(tx, "tag")
    ordered = sorted(rows, key=_id)
    return {seq: turns.give((lane, priority), share, weight) for seq, lane, priority, share, weight, _ in ordered}


# --- wait lines ------------------------------------------------------------------------------------------------------


class Standing(NamedTuple):
    """Where a row is parked, or was until it was woken."""

    parked: str
    line: str
    place: int


def wait_text(wait: Wait) -> str:
    """The value of the column `parked`."""
    return f"{wait.kind}:{wait.key}"


def lines_of(tx: Transaction, wait: Wait) -> dict[str, Limit]:
    """The lines with parked rows, each with the limit that they wait for."""
    lines = [line for (line,) in tx.rows("lines", wait_text(wait))]
    return {line: limit_with(wait, line.partition(" ")[0]) for line in lines}


def park(tx: Transaction, rows: Sequence[tuple[int, ExecutionRow, Limit]]) -> None:
    """Park these rows, each for the limit given with it. Each place follows from those before."""
    shared = [seq for seq, row, _ in rows if row.share is not None]
    before = {seq: Standing(*rest) for seq, *rest in tx.rows("standing", as_json(shared))} if shared else {}
    turns = Turns(tx, "place")
    parked: list[tuple[int, str, str, int]] = []
    for seq, row, full in rows:
        standing = Standing(wait_text(wait_of(full)), f"{numbers_in(full)} {lane_of(row)}", 0)
        if row.share is not None:
            was = before.get(seq)
            kept = was.place if was is not None and was[:2] == standing[:2] else None
            place = turns.give((standing.parked, standing.line, row.priority), row.share, row.weight, kept)
            standing = standing._replace(place=place)
        parked.append((seq, *standing))
    tx.run("park", as_json(parked))
