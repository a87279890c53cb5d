"""What handlers did and what clients were told, written down by themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from ...model.changes import Change
from ...model.execution import State
from .judge import Judge, short


class Try(msgspec.Struct):
    """One run of a handler under one token. `end` stays None if its process died, or while it runs."""

    process: str
    since: float
    end: str | None = None
    result: Any = None


class Journal:
    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self._tries: dict[tuple[str, int], Try] = {}
        self.acknowledged: dict[str, str] = {}
        """Executions that a client was told of: id to what it had asked for."""
        self.commands: set[str] = set()
        """Commands that a client was told are done, by the name each was given under."""

    # --- handlers -----------------------------------------------------------------------------------------
    def started(self, id: str, token: int, process: str) -> None:
        known = self._tries.get((id, token))
        if known is not None:
            self.judge.fail("one run per claim", f"{short(id)}#{token} started by {known.process} and {process}")
        self._tries[id, token] = Try(process, self.judge.elapsed)

    def ended(self, id: str, token: int, end: str, result: Any = None) -> None:
        run = self._tries[id, token]
        run.end, run.result = end, result

    def running(self, process: str, since: float) -> list[str]:
        """Handlers that this process began before that time and has not ended."""
        tries = self._tries.items()
        return [short(id) for (id, _), run in tries if run.process == process and not run.end and run.since < since]

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
