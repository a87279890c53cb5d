"""Tags: where rows that have a share come in the order of their lane (`flow.next_tag`)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TypeAlias

from ...common.limits import next_tag
from ..transaction import Transaction, as_json

Untagged: TypeAlias = tuple[int, str, int, str, int, str]
"""Of a row whose time has come: seq, lane, priority, share, weight and id."""

_id = itemgetter(-1)


def give_tags(tx: Transaction, rows: Sequence[Untagged]) -> None:
    """Rows with a share become ready."""
    if rows:
        tx.run("tag_rows", as_json(list(next_tags(tx, rows).items())))


def next_tags(tx: Transaction, rows: Sequence[Untagged]) -> dict[int, int]:
    """The tag of each by its seq, given one after another in the order of their ids."""
    tags = _Tags(tx)
    ordered = sorted(rows, key=_id)
    return {seq: tags.give(lane, level, share, weight) for seq, lane, level, share, weight, _ in ordered}


class _Tags:
    """The ends of the lanes and of the shares, read once each and kept while a batch adds to them."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._smallest: dict[tuple[str, int], int | None] = {}
        self._greatest: dict[tuple[str, int, str], int | None] = {}

    def give(self, lane: str, priority: int, share: str, weight: int) -> int:
        level, own = (lane, priority), (lane, priority, share)
        if level not in self._smallest:
            self._smallest[level] = self._tx.value("tag_smallest", *level)
        if own not in self._greatest:
            self._greatest[own] = self._tx.value("tag_greatest", *own)
        tag = next_tag(self._smallest[level], self._greatest[own], weight)
        if self._smallest[level] is None:
            self._smallest[level] = tag
        self._greatest[own] = tag
        return tag
