"""Waiting for the end of an execution inside a request: `?wait=30s`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from ..core.views.execution import Execution
from ..model.errors import ExecutionNotFound
from ..model.execution import ExecutionRow
from ..model.values.reading import duration
from .request import Call
from .stream import closing

LONGEST_WAIT = 300.0

Wait = Annotated[
    str | None,
    Query(
        max_length=32,
        description="How long to wait for the end, such as 30s; at most 5m.",
        examples=["30s"],
    ),
]


def seconds(wait: str | None, otherwise: float = 0.0) -> float:
    """How long to wait, at most `LONGEST_WAIT`."""
    return otherwise if wait is None else min(duration("wait", wait, allow_zero=True), LONGEST_WAIT)


async def ended(call: Call, made: Execution | ExecutionRow, patience: float) -> Execution:
    """The execution once it has ended, or as it is when the time is over or this process stops."""
    execution = made if isinstance(made, Execution) else Execution(made)
    if patience <= 0:
        return execution
    try:
        async with closing(call.request.app):
            return Execution(await call.engine.queries.wait(execution, patience))
    except TimeoutError:
        pass
    try:
        return Execution(await call.engine.queries.get(execution.id))
    except ExecutionNotFound:
        return execution
