"""Lines of parked rows: the places that rows get in them, and how the first ones are made ready.

A row that was woken keeps what it waited for until it is claimed or changed: parked again, it has the place it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ....model.execution import ExecutionRow
from ....model.limits import Limit
from ...common.limits import Wait, limit_with, next_tag, numbers_in, wait_of
from ..executions.rows import lane_of
from ..transaction import Transaction, as_json


class Standing(NamedTuple):
    """Of a row that is parked or was woken."""

    parked: str
    line: str
    place: int


def wait_text(wait: Wait) -> str:
    """As it stands in the column `parked`."""
    return f"{wait.kind}:{wait.key}"


def lines_of(tx: Transaction, wait: Wait) -> dict[str, Limit]:
    """Those in which rows wait, each with the limit that they wait for."""
    lines = [line for (line,) in tx.rows("lines", wait_text(wait))]
    return {line: limit_with(wait, line.partition(" ")[0]) for line in lines}


def park(tx: Transaction, rows: Sequence[tuple[int, ExecutionRow, Limit]]) -> None:
    """One after another: each place follows from those before."""
    shared = [seq for seq, row, _ in rows if row.share is not None]
    before = {seq: Standing(*rest) for seq, *rest in tx.rows("standing", as_json(shared))} if shared else {}
    places = _Places(tx)
    parked: list[tuple[int, str, str, int]] = []
    for seq, row, full in rows:
        standing = Standing(wait_text(wait_of(full)), f"{numbers_in(full)} {lane_of(row)}", 0)
        if row.share is not None:
            standing = places.give(standing, row, before.get(seq))
        parked.append((seq, *standing))
    tx.run("park", as_json(parked))


class _Places:
    """The ends of the lines and of the shares in them, read once each and kept while a batch adds to them."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._smallest: dict[tuple[str, str, int], int | None] = {}
        self._greatest: dict[tuple[str, str, int, str], int | None] = {}

    def give(self, wanted: Standing, row: ExecutionRow, before: Standing | None) -> Standing:
        assert row.share is not None
        line = (wanted.parked, wanted.line, row.priority)
        share = (*line, row.share)
        if line not in self._smallest:
            self._smallest[line] = self._tx.value("place_smallest", *line)
        if share not in self._greatest:
            self._greatest[share] = self._tx.value("place_greatest", *share)
        smallest, greatest = self._smallest[line], self._greatest[share]
        if before is not None and before[:2] == wanted[:2]:
            place = before.place
        else:
            place = next_tag(smallest, greatest, row.weight)
        self._smallest[line] = place if smallest is None else min(smallest, place)
        self._greatest[share] = place if greatest is None else max(greatest, place)
        return wanted._replace(place=place)
