"""Wait lines of parked rows, and the places that rows get in them.

A row that was woken keeps its line and place until it is claimed or changed: parked there again, it has the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ....model.execution import ExecutionRow
from ....model.limits import Limit
from ...common.limits import Wait, limit_with, numbers_in, wait_of
from ..executions.rows import lane_of
from ..transaction import Transaction, as_json
from .turns import Turns


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
