"""What the suite did, added up over its tests: without kills, rescues and fenced writes it has proved nothing."""

from __future__ import annotations

from dataclasses import dataclass

from tests.crash.ledger import Ledger, Line


@dataclass
class Tally:
    kills: int = 0
    """SIGKILLs of a worker that owned a running execution at that moment."""
    rescues: int = 0
    """Executions taken back from workers that fell silent."""
    fenced: int = 0
    """Endings, notes, log lines and renewals that the store refused because the lease was lost."""
    counted: bool = False

    def read(self, ledger: Ledger) -> None:
        self.rescues += len(ledger.lines("rescued"))
        self.fenced += len(fenced(ledger))
        self.counted = True

    def __str__(self) -> str:
        return f"{self.kills} kills of busy workers, {self.rescues} rescues, {self.fenced} fenced writes"


def fenced(ledger: Ledger) -> list[Line]:
    """Refused writes of workers that had lost the lease.

    Rescues that came too late are not counted, nor renewals of what the same worker had just ended itself.
    """
    accepted = {(line["id"], line["token"]) for line in ledger.lines("accepted")}
    refused = [line for line in ledger.lines("refused") if line["write"] != "rescue"]
    return [line for line in refused if line["write"] != "lease" or (line["id"], line["token"]) not in accepted]


TALLY = Tally()
