"""The usual ending: an execution that this process claimed has completed, and nothing else happened to it meanwhile.

Rows this process has claimed are remembered, so that the usual ending need not read them again: they go from live to
history inside the database, in two statements for all of them. The fence is checked there too: the copy takes only rows
that still run under the token and the owner of the change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from ....core.ports import Topic
from ....model.execution import ExecutionRow, State
from ....model.job import JobStats
from ....model.store.messages import Change
from ...common.rows import ending_of
from ..transaction import Transaction, as_json
from .rows import label_rows, move_row

K = TypeVar("K")

MOST = 10_000  # claimed rows remembered

Ending: TypeAlias = tuple[int, ExecutionRow, Change]
"""The `seq` of a row, the row as it was claimed, and the change that ends it."""

_seqs = msgspec.json.Decoder(list[int]).decode


class ClaimedRows:
    """The rows this process has claimed and not settled yet."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, ExecutionRow]] = {}

    def remember(self, rows: Iterable[tuple[int, ExecutionRow]]) -> None:
        """Called after the claim is committed. The oldest rows are forgotten first."""
        self._rows.update({found[1].id: found for found in rows})
        while len(self._rows) > MOST:
            del self._rows[next(iter(self._rows))]

    def take(self, changes: Sequence[Change]) -> list[Ending]:
        """The usual endings among these changes, as far as this process knows; the database decides."""
        if len({change.id for change in changes}) < len(changes):
            return []  # the second change of a row has to see the first
        known = [(change, self._rows.pop(change.id, None)) for change in changes]
        return [(found[0], found[1], change) for change, found in known if found and _usual(found[1], change)]


def _usual(row: ExecutionRow, change: Change) -> bool:
    """It ran once, completed, and is kept."""
    return (
        change.to is State.COMPLETED
        and row.claims == 1
        and change.token == row.token
        and change.owner == row.owner
        and change.expect is State.RUNNING
        and change.started is None
        and change.audit is None
        and change.failure is None
        and (change.keep or change.todo)
        and not (change.rescue or change.alone)
    )


def move(tx: Transaction, endings: list[Ending]) -> list[Ending]:
    """Returns those that were moved. The other rows have changed since they were claimed."""
    if not endings:
        return []
    seqs = as_json([seq for seq, _, _ in endings])
    if _copy(tx, endings) < len(endings):
        found = frozenset(_seqs(tx.value("history_moved", seqs)))
        endings = [ending for ending in endings if ending[0] in found]
        seqs = as_json(sorted(found))
    tx.run("live_delete", seqs)
    for job_id, ended in _grouped(endings, lambda ending: ending[1].job_id).items():
        tx.count(completed_delta(job_id, ended))
        tx.ended(job_id, len(ended))
    tx.bulk("label_insert", [row for _, _, change in endings for row in label_rows(change.id, change.labels)])
    if endings:
        tx.topics.add(Topic.ENDED)
    return endings


def _copy(tx: Transaction, endings: Sequence[Ending]) -> int:
    """Returns how many were copied. Endings with the same terms, usually all, share a statement."""
    by_terms = _grouped(endings, lambda ending: (ending[2].todo, ending[2].keep, ending[2].owner))
    return sum(
        tx.joined("history_move", [move_row(seq, change) for seq, _, change in ended], *terms)
        for terms, ended in by_terms.items()
    )


def _grouped(endings: Sequence[Ending], key: Callable[[Ending], K]) -> dict[K, list[Ending]]:
    groups: dict[K, list[Ending]] = {}
    for ending in endings:
        groups.setdefault(key(ending), []).append(ending)
    return groups


def completed_delta(job_id: str, endings: Sequence[Ending]) -> JobStats:
    """What completed executions of one job add to its statistics: the sum of their `common.rows.ended_delta`."""
    _, newest, change = max(endings, key=lambda ending: ending[1].id)
    durations = [change.at - row.started for _, row, change in endings if row.started is not None]
    return JobStats(
        job_id=job_id,
        completed=len(endings),
        duration_ms=sum(durations) / 1000,
        timed=len(durations),
        last_id=newest.id,
        last_state=State.COMPLETED,
        last_started=newest.started,
        last_finished=change.at,
        last_error=change.error,
        last_failures=change.failures,
        by_trigger=_by_trigger(endings),
    )


def _by_trigger(endings: Sequence[Ending]) -> dict[str, int]:
    """By trigger; executions of one job mostly have the same."""
    kinds = {row.trigger for _, row, _ in endings}
    if len(kinds) == 1:
        return {ending_of(kinds.pop(), State.COMPLETED): len(endings)}
    return dict(Counter(ending_of(row.trigger, State.COMPLETED) for _, row, _ in endings))
