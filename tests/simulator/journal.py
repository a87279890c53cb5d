"""What handlers did and what clients were told, written down by themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.model.execution import ExecutionRow, State
from mainspring.model.store.messages import Change
from tests.simulator.judge import Judge, short

Claim = tuple[str, int]
"""An execution and the token it was claimed under."""


class Try(msgspec.Struct):
    """One run of a handler under one token. `end` stays None if its process died, or while it runs."""

    process: str
    alone: bool
    since: float
    end: str | None = None
    result: Any = None


class Journal:
    def __init__(self, judge: Judge, concurrency: int) -> None:
        self.judge, self._concurrency = judge, concurrency
        self._tries: dict[Claim, Try] = {}
        self._running: dict[str, dict[Claim, Try]] = {}
        self.doomed: set[Claim] = set()
        """Claims of executions that had been asked to stop before, or whose job had: their handlers must not start."""
        self.acknowledged: dict[str, str] = {}
        """Executions that a client was told of: id to what it had asked for."""
        self.commands: set[str] = set()
        """Commands that a client was told are done, by the name each was given under."""

    # --- handlers -----------------------------------------------------------------------------------------
    def started(self, execution: ExecutionRow, process: str) -> None:
        claim, company = (execution.id, execution.token), self._running.setdefault(process, {})
        where = f"{short(execution.id)}#{execution.token} on {process}"
        self.judge.check(claim not in self._tries, "one run per claim", where)
        self.judge.check(claim not in self.doomed, "who was asked to stop does", f"{where} started nevertheless")
        alone = not company or not (execution.alone or any(run.alone for run in company.values()))
        self.judge.check(alone, "the sick run alone", f"{where} beside {len(company)} others")
        self.judge.check(len(company) < self._concurrency, "concurrency is bounded", where)
        run = Try(process, execution.alone, self.judge.elapsed)
        self._tries[claim] = company[claim] = run

    def ended(self, execution: ExecutionRow, process: str, end: str, result: Any = None) -> None:
        run = self._running[process].pop((execution.id, execution.token))
        run.end, run.result = end, result

    def running(self, process: str, since: float) -> list[str]:
        """Handlers that this process began before that time and has not ended."""
        return [short(id) for (id, _), run in self._running.get(process, {}).items() if run.since < since]

    # --- against the store --------------------------------------------------------------------------------
    def compare(self, id: str, change: Change) -> None:
        """An accepted ending says what the handler did under that token."""
        end = change.attempt.end if change.attempt is not None else None
        run = self._tries.get((id, change.token))
        where = f"{short(id)}#{change.token}"
        if end in ("completed", "failed", "snoozed"):
            self.judge.check(
                run is not None and run.end == end,
                "history is what handlers did",
                f"{where} is recorded as {end}; its handler {run.end if run else 'never ran'}",
            )
        if run is not None and change.to is State.COMPLETED:
            stored = None if change.result_json is None else msgspec.json.decode(change.result_json)
            self.judge.check(
                stored == run.result, "history is what handlers did", f"{where}: {stored} instead of {run.result}"
            )
