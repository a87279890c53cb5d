"""Finished executions: their follow-ups, retention, deletion.

Retention walks through the finished executions of a job in stretches and remembers how far it came. Ids are ordered by
time, so what may go is at the beginning, behind what other rules keep. A stretch in which everything is too young ends
the walk: what follows is younger still.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ....model.execution import ExecutionRow
from ....model.store.messages import Audit, PruneRule
from ..transaction import Transaction, as_json

STRETCH = 5_000  # finished executions looked at in one step
_AFTER_ALL = "\U0010ffff"

_ids = msgspec.json.Decoder(list[str]).decode


class Prunable(NamedTuple):
    ids: list[str]
    cursor: str  # where to continue; empty: from the beginning


def todo(tx: Transaction, limit: int, after: str = "") -> list[ExecutionRow]:
    return tx.executions("todo", limit, after)


def todo_done(tx: Transaction, ids: Sequence[str]) -> None:
    wanted = as_json(list(ids))
    tx.run("todo_clear", wanted)
    delete_finished(tx, _ids(tx.value("history_unkept", wanted)))


def delete_executions(tx: Transaction, ids: Sequence[str], audits: Sequence[Audit]) -> list[bool]:
    left = delete_finished(tx, ids)
    deleted = []
    for id, audit in zip(ids, audits, strict=True):
        deleted.append(id in left)
        if id in left:
            left.discard(id)
            tx.audit(audit)
    return deleted


def delete_finished(tx: Transaction, ids: Sequence[str], *, regardless: bool = False) -> set[str]:
    """Delete these finished executions and their log lines; with `regardless` also if their follow-ups are not done.
    Returns those that are gone."""
    if not ids:
        return set()
    gone = tx.rows("history_delete", as_json(list(ids)), int(regardless))
    tx.run("log_delete", as_json([id for id, _ in gone]))
    tx.run("executions_delete", as_json([seq for _, seq in gone]))
    return {id for id, _ in gone}


def prunable(tx: Transaction, rule: PruneRule, cursor: str, limit: int) -> Prunable:
    """Ids of the rows that the rule deletes in the stretch after the cursor, oldest first."""
    first_kept = tx.value("prune_keep", rule.job_id, rule.newest - 1) or "" if rule.newest > 0 else _AFTER_ALL
    states = as_json(sorted(rule.states))
    [(found, last, length, earliest)] = tx.rows(
        "prune_window", rule.job_id, cursor, states, first_kept, rule.older_than, STRETCH
    )
    ids = _ids(found)
    if len(ids) > limit:
        return Prunable(ids[:limit], ids[limit - 1])
    young = rule.older_than is not None and earliest is not None and earliest >= rule.older_than
    return Prunable(ids, "" if length < STRETCH or young else last)
