"""What the suite did to the server and its connections, added up over its tests: without faults nothing is proved."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tests.crash.ledger import Ledger
from tests.crash.tally import fenced


@dataclass
class Counters:
    restarts: int = 0
    """Servers stopped or killed, and started again, in the middle of a run."""
    elections: int = 0
    """Primaries of a replica set that stepped down or were killed, and were replaced by another member."""
    terminated: int = 0
    """Connections ended by pg_terminate_backend."""
    cut: int = 0
    """Connections cut, or made half-open, by the proxy."""
    lost_answers: int = 0
    """Commits whose answer the client never saw."""
    deadlocks: int = 0
    """Statements of ours that the server gave up because of a deadlock, and that were repeated."""
    rescues: int = 0
    """Executions taken back when their lease had run out."""
    fenced: int = 0
    """Writes that the store refused because they came too late or a second time."""

    def read(self, ledger: Ledger) -> None:
        self.rescues += len(ledger.lines("rescued"))
        self.fenced += len(fenced(ledger))

    def zeros(self) -> list[str]:
        return [field.name for field in fields(self) if not getattr(self, field.name)]

    def __str__(self) -> str:
        return ", ".join(f"{field.name} {getattr(self, field.name)}" for field in fields(self))


COUNTERS = Counters()
