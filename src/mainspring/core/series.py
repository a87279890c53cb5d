"""Executions of one job that ask for nothing but parameters: what they share is worked out once.

Most of what is enqueued, alone or ten thousand at a time, is that. Each of them still has its own instant, its own id
and checked parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..model.execution import Execution
from ..model.ids import Chance, RandomIds
from ..model.job import Job
from .ports import Clock

Encode = Callable[[Job, Any], str]


class Series:
    """Made like `first`, which was enqueued without options. `encode` checks parameters and renders them."""

    def __init__(self, job: Job, first: Execution, encode: Encode, clock: Clock, chance: Chance) -> None:
        self.job = job
        self._first, self._encode, self._clock = first, encode, clock
        self._ids = RandomIds(chance)
        self._last = first.created
        self._without_params: str | None = None

    def made(self, params: Any) -> Execution:
        now = self._clock.now()
        self._last = max(now, self._last + 1)  # ids tell the order: no two have the same instant
        id = self._ids.at(self._last)
        return msgspec.structs.replace(
            self._first,
            id=id,
            trace_id=id.replace("-", ""),
            created=now,
            due=now,
            params=self._usual() if params is None else self._encode(self.job, params),
        )

    def _usual(self) -> str:
        if self._without_params is None:
            self._without_params = self._encode(self.job, None)
        return self._without_params
