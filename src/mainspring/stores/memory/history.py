"""Finished rows; the log lines of executions; all ids in order and by parent."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec.structs import replace

from ...model.execution import ExecutionRow, State
from ...model.store.messages import LogLine, PruneRule
from ..common.rows import LOG_LINES_KEPT


class History:
    def __init__(self) -> None:
        self._rows: dict[str, ExecutionRow] = {}
        self._by_job: dict[str, list[str]] = {}
        self._todo: list[str] = []
        self._unkept: set[str] = set()

    def __contains__(self, id: str) -> bool:
        return id in self._rows

    def get(self, id: str) -> ExecutionRow | None:
        return self._rows.get(id)

    def add(self, row: ExecutionRow, *, keep: bool = True) -> None:
        """Record a finished row; without `keep`, for its follow-ups only."""
        self._rows[row.id] = row
        insort(self._by_job.setdefault(row.job_id, []), row.id)
        if row.todo:
            insort(self._todo, row.id)
        if not keep:
            self._unkept.add(row.id)

    def remove(self, id: str) -> ExecutionRow:
        row = self._rows.pop(id)
        _remove_sorted(self._by_job[row.job_id], id)
        if row.todo:
            _remove_sorted(self._todo, id)
        self._unkept.discard(id)
        return row

    def keeps(self, id: str) -> bool:
        return id not in self._unkept

    def of_job(self, job_id: str) -> list[str]:
        return list(self._by_job.get(job_id, ()))

    def todo(self, limit: int, after: str = "") -> list[ExecutionRow]:
        start = bisect_right(self._todo, after)
        return [self._rows[id] for id in self._todo[start : start + limit]]

    def clear_todo(self, id: str) -> bool:
        """Clear the mark; True if the row need not be kept any longer."""
        row = self._rows.get(id)
        if row is None or not row.todo:
            return False
        _remove_sorted(self._todo, id)
        self._rows[id] = replace(row, todo=False)
        return id in self._unkept

    def prunable(self, rule: PruneRule, limit: int) -> list[str]:
        """The ids of the rows that the rule deletes, oldest first."""
        ids = self.of_job(rule.job_id)
        counted = [id for id in reversed(ids) if self._rows[id].state is not State.SKIPPED]
        newest = frozenset(counted[: rule.newest])
        return list(islice((id for id in ids if id not in newest and self._goes(self._rows[id], rule)), limit))

    def _goes(self, row: ExecutionRow, rule: PruneRule) -> bool:
        old = rule.older_than is None or (row.finished is not None and row.finished < rule.older_than)
        return old and row.state in rule.states and not row.todo


class LogBook:
    """The newest log lines of each execution, numbered from 1."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[tuple[int, LogLine]]] = {}

    def append(self, id: str, lines: Iterable[LogLine]) -> None:
        book = self._lines.setdefault(id, deque(maxlen=LOG_LINES_KEPT))
        for line in lines:
            book.append((book[-1][0] + 1 if book else 1, line))

    def after(self, id: str, sequence: int) -> list[tuple[int, LogLine]]:
        return [(number, line) for number, line in self._lines.get(id, ()) if number > sequence]

    def restore(self, id: str, lines: Iterable[tuple[int, LogLine]]) -> None:
        self._lines[id] = deque(lines, maxlen=LOG_LINES_KEPT)

    def remove(self, id: str) -> None:
        self._lines.pop(id, None)


class IdIndex:
    """All executions by id and by parent, live or finished."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._children: dict[str, set[str]] = {}

    def add(self, row: ExecutionRow) -> None:
        insort(self._ids, row.id)
        if row.parent_id is not None:
            self._children.setdefault(row.parent_id, set()).add(row.id)

    def remove(self, row: ExecutionRow) -> None:
        _remove_sorted(self._ids, row.id)
        if row.parent_id is not None:
            self._children[row.parent_id].discard(row.id)

    def children(self, parent_id: str) -> Iterable[str]:
        return self._children.get(parent_id, ())

    def after(self, id: str) -> Iterable[str]:
        return self._ids[bisect_right(self._ids, id) :]

    def between(self, after: str | None, before: str | None, *, backwards: bool) -> Iterator[str]:
        """Lazily: only as many as the caller reads."""
        begin = 0 if after is None else bisect_right(self._ids, after)
        end = len(self._ids) if before is None else bisect_left(self._ids, before)
        return map(self._ids.__getitem__, range(end - 1, begin - 1, -1) if backwards else range(begin, end))


def _remove_sorted(items: list[str], item: str) -> None:
    del items[bisect_left(items, item)]
