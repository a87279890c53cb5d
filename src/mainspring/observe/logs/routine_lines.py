"""The two lines of every execution, rendered without a log record: they are made tens of thousands of times a second,
and `logging` would take longer for them than the execution itself takes.

They say what the formatters would have written. Their text is made at once, not by the thread that writes it: there,
what they tell of would have to be fetched from memory again, which takes longer than all of it does here.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from ...model.events import AttemptEnded, Started
from ...model.execution import ExecutionRow
from .formats import ConsoleFormatter, plain

HEADS = 1_000
"""Beginnings of lines that are kept: one for each kind of event, job and trigger."""

_Kind: TypeAlias = tuple[str, type, str, str]


class RoutineLines(ABC):
    def __init__(self) -> None:
        self._heads: dict[_Kind, str] = {}
        self._moment, self._time = 0, ""

    def serves(self, logger: str) -> bool:
        """Whether lines of this logger read as rendered here."""
        return True

    def lines(self, logger: str, moment: int, events: Sequence[Started | AttemptEnded]) -> list[str]:
        """Of one kind. `moment` is the time of the machine, in milliseconds: many lines share theirs."""
        if moment != self._moment:
            self._time, self._moment = self._look(datetime.fromtimestamp(moment / 1000, UTC)), moment
        kind, job, trigger, head = type(events[0]), "", "", ""
        lines = []
        for event in events:
            execution = event.execution
            if execution.job != job or execution.trigger != trigger:
                job, trigger = execution.job, execution.trigger
                head = self._head_of((logger, kind, job, trigger))
            trace_id = execution.trace_id
            usual = execution.tenant is None and trace_id.isascii() and trace_id.encode().isalnum()  # bytes are quicker
            lines.append(
                self._rendered(head, execution, event.duration_ms if type(event) is AttemptEnded else None, usual)
            )
        return lines

    def _head_of(self, key: _Kind) -> str:
        return self._heads.get(key) or self._kept_head(key)

    def _kept_head(self, key: _Kind) -> str:
        logger, kind, job, trigger = key
        if len(self._heads) >= HEADS:
            self._heads.clear()
        head = self._heads[key] = self._head(logger, "job_end" if kind is AttemptEnded else "job_start", job, trigger)
        return head

    @abstractmethod
    def _look(self, moment: datetime) -> str: ...

    @abstractmethod
    def _head(self, logger: str, event: str, job: str, trigger: str) -> str: ...

    @abstractmethod
    def _rendered(self, head: str, execution: ExecutionRow, duration_ms: float | None, usual: bool) -> str:
        """An ending has a duration. What is usual has no tenant, and nothing to be quoted."""


class JsonLines(RoutineLines):
    """As `JsonFormatter` writes them."""

    def __init__(self, process: int | None = None) -> None:
        super().__init__()
        self._process = "" if process is None else f', "process": {process}'

    def _look(self, moment: datetime) -> str:
        return f'{{"time": "{moment.isoformat(timespec="milliseconds")}"'

    def _head(self, logger: str, event: str, job: str, trigger: str) -> str:
        return (
            f', "level": "INFO", "logger": {json.dumps(logger)}{self._process}, "event": "{event}", '
            f'"job": {json.dumps(job)}, "trigger": {json.dumps(trigger)}, "trace_id": '
        )

    def _rendered(self, head: str, execution: ExecutionRow, duration_ms: float | None, usual: bool) -> str:
        trace, tenant = f'"{execution.trace_id}"', "null"
        if not usual:
            trace, tenant = json.dumps(execution.trace_id), json.dumps(execution.tenant)
        ending = "}" if duration_ms is None else f', "duration_ms": {duration_ms:.3f}, "state": "completed"}}'
        return (
            f'{self._time}{head}{trace}, "execution_id": "{execution.id}", "attempt": {execution.failures + 1}, '
            f'"tenant": {tenant}{ending}'
        )


class ConsoleLines(RoutineLines):
    """As `ConsoleFormatter` writes them."""

    def __init__(self, formatter: ConsoleFormatter) -> None:
        super().__init__()
        self._formatter = formatter

    def serves(self, logger: str) -> bool:
        return logger.partition(".")[0] == "mainspring"

    def _look(self, moment: datetime) -> str:
        return self._formatter.time(moment)

    def _head(self, logger: str, event: str, job: str, trigger: str) -> str:
        named = f"job={plain(job)} trigger={plain(trigger)}"
        return f" {self._formatter.level('INFO')}{self._formatter.event(event)} {named} attempt="

    def _rendered(self, head: str, execution: ExecutionRow, duration_ms: float | None, usual: bool) -> str:
        trace, tenant = execution.trace_id, ""
        if not usual:
            trace = plain(trace)
            tenant = "" if execution.tenant is None else f" tenant={plain(execution.tenant)}"
        ending = "" if duration_ms is None else f" duration_ms={round(duration_ms, 3):.10g} state=completed"
        return (
            f"{self._time}{head}{execution.failures + 1}{tenant}{ending} trace_id={trace} execution_id={execution.id}"
        )
