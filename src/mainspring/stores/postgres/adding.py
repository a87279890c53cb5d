"""Adding executions: those that ask for no key in one statement, the others one by one, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...model.changes import Added, Audit
from ...model.execution import Execution
from .database import Database
from .rows import as_json, incoming, is_plain


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
    wire = kinds.wire()
    parts = [as_json(wire[kind]) if kind in wire else None for kind in ("plain", "others")]
    known, outcomes = await db.row("add", *parts, as_json(audits) if audits else None, repeat=True)
    return kinds.answer(decoded(known), decoded(outcomes))


def decoded(text: str | None) -> list[Any]:
    return [] if text is None else msgspec.json.decode(text, type=list[Any])
