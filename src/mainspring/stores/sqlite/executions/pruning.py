"""Retention: looks through the finished executions of a job in stretches, and remembers how far it came.

Ids are ordered by time, so what may go is found at the beginning, behind what other rules keep. A stretch in which
everything is too young ends the search: what follows is younger still.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ....model.store.messages import PruneRule
from ....model.time.instants import seconds_to_micros
from ..transaction import Transaction, as_json

STRETCH = 5_000  # finished executions looked at in one step
_AFTER_ALL = "\U0010ffff"

_ids = msgspec.json.Decoder(list[str]).decode


class Found(NamedTuple):
    ids: list[str]
    cursor: str  # where to go on; empty: from the beginning


def prunable(tx: Transaction, rule: PruneRule, cursor: str, limit: int) -> Found:
    """Ids of what the rule lets go in the stretch after the cursor, oldest first."""
    first_kept = tx.value("prune_keep", rule.job_id, rule.newest - 1) or "" if rule.newest > 0 else _AFTER_ALL
    states = as_json(sorted(rule.states))
    [(found, last, length, earliest)] = tx.rows(
        "prune_window", rule.job_id, cursor, states, first_kept, rule.older_than, STRETCH
    )
    ids = _ids(found)
    if len(ids) > limit:
        return Found(ids[:limit], ids[limit - 1])
    young = rule.older_than is not None and earliest is not None and earliest >= rule.older_than
    return Found(ids, "" if length < STRETCH or young else last)


def prune_workers(tx: Transaction, silent_for: float) -> int:
    """Delete silent workers, expired locks and full token buckets. Returns the number of workers."""
    tx.run("locks_prune", tx.now)
    tx.run("buckets_prune", tx.now)
    return tx.run("workers_prune", tx.now - seconds_to_micros(silent_for))
