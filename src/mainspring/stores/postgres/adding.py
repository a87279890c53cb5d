"""Adding executions: those that ask for no key in one statement, the others one by one, in order.

The usual ones, bare of everything but their job and parameters, travel as arrays; the rest as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...model.changes import Added, Audit
from ...model.execution import Execution
from .arrays import numbers, texts
from .database import Database
from .rows import as_json, body, foreign_trace, incoming, is_bare, is_plain, lane_of


class Sorted(msgspec.Struct):
    """Executions by the way they are added, with their places in the batch."""

    plain: list[tuple[int, Execution]]
    others: list[tuple[int, Execution]]

    def wire(self) -> dict[str, Any]:
        """The rows by kind; a kind of which there is none is left out."""
        kinds = {"plain": self.plain, "others": self.others}
        return {kind: [incoming(row) for _, row in rows] for kind, rows in kinds.items() if rows}

    def answer(self, known: Sequence[str], outcomes: Sequence[Any]) -> list[Added]:
        """What became of each, in the order given. `known` are plain ones that existed already."""
        refused = frozenset(known)
        answers = [(n, Added(row.id, "duplicate" if row.id in refused else "added")) for n, row in self.plain]
        answers += [(n, Added(row.id, *outcome)) for (n, row), outcome in zip(self.others, outcomes, strict=True)]
        return [added for _, added in sorted(answers, key=lambda answer: answer[0])]


def sorted_by_kind(executions: Sequence[Execution]) -> Sorted:
    """An id that comes twice is judged in order, after its first one."""
    kinds, seen = Sorted([], []), set[str]()
    for n, execution in enumerate(executions):
        plain = is_plain(execution) and execution.id not in seen
        (kinds.plain if plain else kinds.others).append((n, execution))
        seen.add(execution.id)
    return kinds


async def add(db: Database, executions: Sequence[Execution], audits: Sequence[Audit] = ()) -> list[Added]:
    if not executions:
        return []
    kinds = sorted_by_kind(executions)
    bare = [row for _, row in kinds.plain] if all(is_bare(row) for _, row in kinds.plain) else []
    plain = [] if bare else [incoming(row) for _, row in kinds.plain]
    others = [incoming(row) for _, row in kinds.others]
    parts = [as_json(part) if part else None for part in (plain, others, audits)]
    known, outcomes = await db.row("add", *bare_literals(bare), *parts, repeat=True)
    return kinds.answer(decoded(known), decoded(outcomes))


def bare_literals(rows: Sequence[Execution]) -> tuple[str | None, ...]:
    """The fields of the schema's type `bare`."""
    if not rows:
        return (None,) * 9
    return (
        numbers([row.id for row in rows]),
        texts([row.job_id for row in rows]),
        texts([lane_of(row) for row in rows]),
        numbers([row.priority for row in rows]),
        numbers([row.created for row in rows]),
        numbers([row.due for row in rows]),
        texts([foreign_trace(row) for row in rows]),
        texts([body(row) for row in rows]),
        texts([row.job for row in rows]),
    )


def decoded(text: str | None) -> list[Any]:
    return [] if text is None else msgspec.json.decode(text, type=list[Any])
