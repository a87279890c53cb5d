"""What this process has claimed and not settled yet, so that a settle need not read it again.

The fence is always checked against the database: a remembered row is used only if the row there still runs under the
same token and owner and nothing was written to it since, in the transaction that settles it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ...model.changes import Change
from ...model.execution import Execution
from .transaction import Transaction, as_json

MOST = 10_000

_fences = msgspec.json.Decoder(list[tuple[str, int, str]]).decode


class ClaimedRows:
    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, Execution]] = {}

    def remember(self, rows: Iterable[tuple[int, Execution]]) -> None:
        """After the commit of the claim. The oldest are forgotten first."""
        for seq, row in rows:
            self._rows[row.id] = (seq, row)
        while len(self._rows) > MOST:
            del self._rows[next(iter(self._rows))]

    def take(self, tx: Transaction, changes: Sequence[Change]) -> list[tuple[int, Execution]]:
        """Those rows of the changes that are as they were claimed. A rescue looks at the lease, which has moved."""
        wanted = {change.id for change in changes if not change.rescue} & self._rows.keys()
        known = [self._rows.pop(id) for id in wanted]
        if not known:
            return []
        fences = _fences(tx.value("live_untouched", as_json([seq for seq, _ in known])))
        untouched = {id: (token, owner) for id, token, owner in fences}
        return [(seq, row) for seq, row in known if untouched.get(row.id) == (row.token, row.owner)]
