"""The usual ending: an execution this process claimed has completed, and nothing else was told of it meanwhile.

Such rows go from live to history inside the database, in two statements for all of them. The fence is checked there
too: the copy takes only rows that still run under the token and the owner of the change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from ....core.ports import Topic
from ....model.execution import State
from ....model.job import JobStats
from ...common.rows import ending_of
from ..transaction import Transaction, as_json
from .claimed import Ending
from .rows import move_row

K = TypeVar("K")

_seqs = msgspec.json.Decoder(list[int]).decode


def move(tx: Transaction, endings: list[Ending]) -> list[Ending]:
    """Those that were moved. The others are not as they were claimed and have to be looked at."""
    if not endings:
        return []
    seqs = as_json([seq for seq, _, _ in endings])
    if _copy(tx, endings) < len(endings):
        found = frozenset(_seqs(tx.value("history_moved", seqs)))
        endings = [ending for ending in endings if ending[0] in found]
        seqs = as_json(sorted(found))
    tx.run("live_delete", seqs)
    for job_id, ended in grouped(endings, lambda ending: ending[1].job_id).items():
        tx.count(completed_delta(job_id, ended))
        tx.ended(job_id, len(ended))
    if endings:
        tx.topics.add(Topic.ENDED)
    return endings


def _copy(tx: Transaction, endings: Sequence[Ending]) -> int:
    """How many. One statement for all that have the same terms, as they usually have."""
    by_terms = grouped(endings, lambda ending: (ending[2].todo, ending[2].keep, ending[2].owner))
    return sum(
        tx.joined("history_move", [move_row(seq, change) for seq, _, change in ended], *terms)
        for terms, ended in by_terms.items()
    )


def grouped(endings: Sequence[Ending], key: Callable[[Ending], K]) -> dict[K, list[Ending]]:
    groups: dict[K, list[Ending]] = {}
    for ending in endings:
        groups.setdefault(key(ending), []).append(ending)
    return groups


def completed_delta(job_id: str, endings: Sequence[Ending]) -> JobStats:
    """What completed executions of one job add to its statistics: as shared.ended_delta one by one, in one go."""
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
    """Executions of one job mostly come from one trigger."""
    kinds = {row.trigger for _, row, _ in endings}
    if len(kinds) == 1:
        return {ending_of(kinds.pop(), State.COMPLETED): len(endings)}
    return dict(Counter(ending_of(row.trigger, State.COMPLETED) for _, row, _ in endings))
