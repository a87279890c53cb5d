"""Executions made from one blank: whoever knows it knows nearly all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..execution import ExecutionRow
from ..time.instants import Micros


class Blank:
    """An execution but for what is each one's own: id, trace id, instant and parameters. Blanks are told apart by
    identity, so that whoever works something out for all that are made from one can remember it."""

    def __init__(self, execution: ExecutionRow) -> None:
        self.execution = execution


class Alike(list[ExecutionRow]):
    """Executions of one blank. No id comes twice, each trace id is that of the execution itself, and all are due when
    they are created. Only `core.commands.batches` makes these; a copy, or a part of one, is just a list."""

    __slots__ = ("ahead", "blank")

    blank: Blank
    ahead: Micros
    """By how much the instant that an id tells may be later than that of its creation."""


def alike(blank: Blank, executions: Iterable[ExecutionRow], ahead: Micros = 0) -> Alike:
    made = Alike(executions)
    made.blank, made.ahead = blank, ahead
    return made


def together(batches: Sequence[Sequence[ExecutionRow]]) -> list[ExecutionRow]:
    """All of them in one; still alike if they were made from the same blank."""
    executions = [execution for batch in batches for execution in batch]
    blanks = {batch.blank if isinstance(batch, Alike) else None for batch in batches}
    blank = blanks.pop()
    if blanks or blank is None:
        return executions
    return alike(blank, executions, max(batch.ahead for batch in batches if isinstance(batch, Alike)))
