"""Calls that are made when a session of SQLAlchemy has committed, and never if it rolls back.

The caller's application has SQLAlchemy: nothing else imports this module. The calls of a session are kept with the
transaction or savepoint in which they were registered, and made when the outermost transaction has ended: by then the
session is closed for good and usable again, whatever a call raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, SessionTransaction, scoped_session

AnySession: TypeAlias = Session | AsyncSession | scoped_session[Any] | async_scoped_session[Any]

ALLOWED = "a Session, AsyncSession or scoped session of SQLAlchemy"


def plain_session(session: AnySession) -> Session:
    """The `Session` that has the transaction, whatever is around it. `TypeError` if it is no session."""
    found: Any = session() if isinstance(session, scoped_session | async_scoped_session) else session
    found = found.sync_session if isinstance(found, AsyncSession) else found
    if not isinstance(found, Session):
        raise TypeError(f"session is a {type(session).__name__}, but must be {ALLOWED}")
    return found


def after_commit(session: Session, call: Callable[[], None], dropped: Callable[[], None] = lambda: None) -> None:
    """Call it once this session has committed; in the order of registration, in the thread that commits. `dropped` is
    called instead when it rolls back."""
    calls = _calls.get(session)
    if calls is None:
        calls = _calls[session] = _Calls(session)
    calls.add(session, call, dropped)


class _Waiting(NamedTuple):
    within: SessionTransaction
    call: Callable[[], None]
    dropped: Callable[[], None]


class _Calls:
    """Those of one session."""

    def __init__(self, session: Session) -> None:
        self._waiting: list[_Waiting] = []
        self._committed = False
        event.listen(session, "after_commit", self._on_commit)
        event.listen(session, "after_soft_rollback", self._on_rollback)
        event.listen(session, "after_transaction_end", self._on_end)

    def add(self, session: Session, call: Callable[[], None], dropped: Callable[[], None]) -> None:
        within = session.get_nested_transaction() or session.get_transaction() or session.begin()
        self._waiting.append(_Waiting(within, call, dropped))

    def _on_commit(self, session: Session) -> None:
        """Savepoints commit, too. What was registered in one waits for the transaction around it."""
        self._committed = not session.in_nested_transaction()

    def _on_rollback(self, _: Session, ended: SessionTransaction) -> None:
        undone = [each for each in self._waiting if ended in _around(each.within)]
        self._waiting = [each for each in self._waiting if each not in undone]
        for each in undone:
            each.dropped()

    def _on_end(self, _: Session, ended: SessionTransaction) -> None:
        if ended.parent is not None:
            return
        committed, waiting = self._committed, self._waiting
        self._committed, self._waiting = False, []
        _make([each.call if committed else each.dropped for each in waiting])


def _make(calls: list[Callable[[], None]]) -> None:
    """All of them, even if one raises; then its error is raised."""
    failed: Exception | None = None
    for call in calls:
        try:
            call()
        except Exception as error:
            failed = failed or error
    if failed is not None:
        raise failed


def _around(transaction: SessionTransaction) -> Iterator[SessionTransaction]:
    """The transaction itself, and those around it."""
    inner: SessionTransaction | None = transaction
    while inner is not None:
        yield inner
        inner = inner.parent


_calls: WeakKeyDictionary[Session, _Calls] = WeakKeyDictionary()
