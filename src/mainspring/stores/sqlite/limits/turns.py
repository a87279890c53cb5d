"""Shares take turns: tags of ready rows in a lane, places of parked rows in a wait line (`common.limits.next_tag`)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Literal, TypeAlias

from ...common.limits import next_tag
from ..executions.rows import Row
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
