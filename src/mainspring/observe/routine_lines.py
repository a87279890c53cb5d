"""The two JSON lines of every execution, rendered without a log record: they are made tens of thousands of times a
second, and `logging` would take longer for them than the execution itself takes.

They say what `JsonFormatter` would have written. Their text is made at once, not by the thread that writes it: there,
what they tell of would have to be fetched from memory again, which takes longer than all of it does here.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TypeAlias

from ..model.events import Ended, Started

HEADS = 1_000
"""Beginnings of lines that are kept: one for each kind of event, job and trigger."""

_Kind: TypeAlias = tuple[str, type, str, str]


class RoutineLines:
    def __init__(self, process: int | None = None) -> None:
        self._process = "" if process is None else f', "process": {process}'
        self._heads: dict[_Kind, str] = {}
        self._moment, self._time = 0, ""

    def line(self, logger: str, moment: int, event: Started | Ended) -> str:
        """`moment` is the time of the machine, in milliseconds."""
        execution = event.execution
        key = (logger, type(event), execution.job, execution.trigger)
        head = self._heads.get(key) or self._made_head(key)
        if moment != self._moment:
            self._look(moment)
        trace, tenant = execution.trace_id, "null"
        if execution.tenant is not None or not trace.isalnum() or not trace.isascii():
            trace, tenant = json.dumps(trace)[1:-1], json.dumps(execution.tenant)
        if type(event) is Ended:
            return (
                f'{self._time}{head}{trace}", "execution_id": "{execution.id}", "attempt": {execution.failures + 1}, '
                f'"tenant": {tenant}, "duration_ms": {event.duration_ms:.3f}, "state": "completed"}}'
            )
        return (
            f'{self._time}{head}{trace}", "execution_id": "{execution.id}", "attempt": {execution.failures + 1}, '
            f'"tenant": {tenant}}}'
        )

    def _look(self, moment: int) -> None:
        """Many lines share their millisecond."""
        text = datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        self._time, self._moment = f'{{"time": "{text}.{moment % 1000:03d}+00:00"', moment

    def _made_head(self, key: _Kind) -> str:
        name = "job_end" if key[1] is Ended else "job_start"
        logger, event, job, trigger = map(json.dumps, (key[0], name, *key[2:]))
        if len(self._heads) >= HEADS:
            self._heads.clear()
        head = self._heads[key] = (
            f', "level": "INFO", "logger": {logger}{self._process}, "event": {event}, "job": {job}, '
            f'"trigger": {trigger}, "trace_id": "'
        )
        return head
