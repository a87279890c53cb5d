"""Batches of executions made from one execution template, so that a store can prepare what they share once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..execution import ExecutionRow
from ..time.instants import Micros


class ExecutionTemplate:
    """An execution without the fields that differ per execution: id, trace id, creation time, parameters and
    labels.

    Templates are compared by identity, so a store can cache what it derives from one.
    """

    def __init__(self, execution: ExecutionRow) -> None:
        self.execution = execution


class TemplatedBatch(list[ExecutionRow]):
    """Executions made from one template: ids are unique, each trace id is the execution's own id, and each execution
    is due when it is created. Only `core.commands.enqueue` creates these; a copy or a slice is a plain list."""

    __slots__ = ("ahead", "template")

    template: ExecutionTemplate
    ahead: Micros
    """By how much the time in an id may be later than the creation time of its execution."""


def batch_of(template: ExecutionTemplate, executions: Iterable[ExecutionRow], ahead: Micros = 0) -> TemplatedBatch:
    batch = TemplatedBatch(executions)
    batch.template, batch.ahead = template, ahead
    return batch


def merged(batches: Sequence[Sequence[ExecutionRow]]) -> list[ExecutionRow]:
    """All executions in one list; a `TemplatedBatch` if all batches were made from the same template."""
    executions = [execution for batch in batches for execution in batch]
    templates = {batch.template if isinstance(batch, TemplatedBatch) else None for batch in batches}
    template = templates.pop()
    if templates or template is None:
        return executions
    return batch_of(template, executions, max(batch.ahead for batch in batches if isinstance(batch, TemplatedBatch)))
