"""The two JSON lines of every execution, rendered without a log record: they are made tens of thousands of times a
second, and `logging` would take longer for them than the execution itself takes.

They read exactly as `JsonFormatter` writes them.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

from ..model.execution import Execution

HEADS = 1_000
"""Beginnings of lines that are kept: one for each event, job and trigger."""


class RoutineLines:
    def __init__(self, process: int | None = None) -> None:
        self._process = "" if process is None else f', "process": {process}'
        self._heads: dict[tuple[str, str, str, str], str] = {}
        self._moment = (0, "")

    def line(self, logger: str, event: str, execution: Execution, tail: str = "") -> str:
        """`tail` is JSON text of more fields."""
        key = (logger, event, execution.job, execution.trigger)
        head = self._heads.get(key) or self._made_head(key)
        moment, now = self._moment
        if (here := int(time.time() * 1000)) != moment:
            now = self._told(here)
        trace = execution.trace_id
        quoted = f'"{trace}"' if trace.isalnum() and trace.isascii() else json.dumps(trace)
        tenant = "null" if execution.tenant is None else json.dumps(execution.tenant)
        return (
            f'{{"time": "{now}+00:00"{head}{quoted}, "execution_id": "{execution.id}", '
            f'"attempt": {execution.failures + 1}, "tenant": {tenant}{tail}}}'
        )

    def _told(self, moment: int) -> str:
        """Many lines share their millisecond."""
        text = datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        now = f"{text}.{moment % 1000:03d}"
        self._moment = (moment, now)
        return now

    def _made_head(self, key: tuple[str, str, str, str]) -> str:
        logger, event, job, trigger = map(json.dumps, key)
        if len(self._heads) >= HEADS:
            self._heads.clear()
        head = self._heads[key] = (
            f', "level": "INFO", "logger": {logger}{self._process}, "event": {event}, "job": {job}, '
            f'"trigger": {trigger}, "trace_id": '
        )
        return head
