"""What becomes of transactions on sessions and connections of SQLAlchemy, by its events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncConnection

from ..stores.common.session_commits import after_commit, plain_session


def watch(connection: Any, committed: Callable[[], None], dropped: Callable[[], None]) -> None:
    """Call one of them when the transaction that is open on it has ended."""
    plain: Any = connection.sync_connection if isinstance(connection, AsyncConnection) else connection
    if not isinstance(plain, Connection):
        after_commit(plain_session(plain), committed, dropped)
        return
    calls = _calls.get(plain)
    if calls is None:
        calls = _calls[plain] = _Calls(plain)
    calls.waiting.append(_Waiting(tuple(calls.savepoints), committed, dropped))


class _Waiting(NamedTuple):
    savepoints: tuple[object, ...]
    committed: Callable[[], None]
    dropped: Callable[[], None]


class _Calls:
    """Those of one connection, each with the savepoints around it. Savepoints that were there before are not known."""

    def __init__(self, connection: Connection) -> None:
        self.savepoints: list[object] = []
        self.waiting: list[_Waiting] = []
        event.listen(connection, "savepoint", self._on_savepoint)
        event.listen(connection, "release_savepoint", self._on_release)
        event.listen(connection, "rollback_savepoint", self._on_rollback_savepoint)
        event.listen(connection, "commit", self._on_commit)
        event.listen(connection, "rollback", self._on_rollback)

    def _on_savepoint(self, _: Connection, name: str | None) -> None:
        """It has no name yet, so the next one to end is taken to be the innermost."""
        self.savepoints.append(object())

    def _on_release(self, _: Connection, name: str, context: None) -> None:
        del self.savepoints[-1:]

    def _on_rollback_savepoint(self, _: Connection, name: str, context: None) -> None:
        innermost = self.savepoints.pop() if self.savepoints else None
        undone = [each for each in self.waiting if innermost is None or innermost in each.savepoints]
        self.waiting = [each for each in self.waiting if each not in undone]
        for each in undone:
            each.dropped()

    def _on_commit(self, _: Connection) -> None:
        for each in self._all():
            each.committed()

    def _on_rollback(self, _: Connection) -> None:
        for each in self._all():
            each.dropped()

    def _all(self) -> list[_Waiting]:
        waiting, self.waiting, self.savepoints = self.waiting, [], []
        return waiting


_calls: WeakKeyDictionary[Connection, _Calls] = WeakKeyDictionary()
