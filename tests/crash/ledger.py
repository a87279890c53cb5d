"""A witness outside the database: every process of a test appends lines to one file, and a killed one keeps its own.

A line is one JSON object written with one `write` to a file opened for appending, so that lines never mix and
none is lost with its process. It says when it was written: what is promised in seconds is judged by that, and not by
how soon the test comes to read it.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from mainspring import JobContext
from mainspring.core.views.execution import row_of
from mainspring.model.events import AttemptEnded, Fenced, Rescued, Stopping, Ticked, Trouble

Line = dict[str, Any]


class Ledger:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._lines: list[Line] = []
        self._offset = 0

    def write(self, what: str, **fields: Any) -> None:
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        line = {"what": what, "pid": os.getpid(), "at": time.time(), **fields}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def lines(self, what: str | None = None, **fields: Any) -> list[Line]:
        """The lines so far, of one kind, with these values."""
        wanted = fields if what is None else {"what": what, **fields}
        return [line for line in self._all() if wanted.items() <= line.items()]

    def _all(self) -> list[Line]:
        """Read on from where the last call ended; a line still being written is left for the next."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._offset)
                written = file.read()
            whole = written[: written.rfind(b"\n") + 1]
            self._lines += map(json.loads, whole.splitlines())
            self._offset += len(whole)
        return self._lines

    def began(self, ctx: JobContext) -> None:
        self.write("began", **_who(ctx))

    def ended(self, ctx: JobContext) -> None:
        self.write("ended", **_who(ctx))

    def observe(self, event: object) -> None:
        """What the process itself says happened."""
        match event:
            case AttemptEnded(execution, state, tried=True):
                self.write("accepted", **_which(execution), state=state.value)
            case Fenced(execution, write):
                self.write("fenced", **_which(execution), write=write)
            case Rescued(execution, _, state):
                self.write("rescued", **_which(execution), state=state.value)
            case Ticked(execution):
                self.write("ticked", id=execution.id, job=execution.job, tick=row_of(execution).tick)
            case Stopping():
                self.write("stopping")
            case Trouble(where, error):
                self.write("trouble", where=where, error=error)
            case _:
                pass


def _who(ctx: JobContext) -> Line:
    execution = ctx.execution
    return {**_which(execution), "job": execution.job, "tick": row_of(execution).tick}


def _which(execution: Any) -> Line:
    """Which claim of which execution."""
    row = row_of(execution)
    return {"id": execution.id, "token": row.token, "claim": row.claims}
