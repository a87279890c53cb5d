"""Mainspring beside SQLAlchemy: enqueue when a session has committed.

For a store in another database than the session's. In the same database `connection=session` is better: there the
execution is part of the transaction, and a crash right after the commit cannot lose it. See docs/frameworks.md.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping
from typing import Any, ParamSpec, TypeAlias, TypeVar, overload

from sqlalchemy.util import concurrency

from ..app.handles import BoundCall, EnqueueItem, Request
from ..app.mainspring import Mainspring
from ..core.commands.enqueue import read_item
from ..core.loops import inside_event_loop
from ..core.rules.secret_params import hide
from ..model.errors import InvalidValue
from ..model.values.payload import presentable
from ..stores.common.session_commits import ALLOWED, AnySession, after_commit, plain_session

P = ParamSpec("P")
T = TypeVar("T")

Call: TypeAlias = tuple[Any, Any, Mapping[str, Any]]
"""Handler, parameters and options."""

logger = logging.getLogger("mainspring")


@overload
def enqueue_on_commit(session: AnySession, job: Request[P, Any, Any], /, *args: P.args, **kwargs: P.kwargs) -> None: ...
@overload
def enqueue_on_commit(session: AnySession, job: BoundCall[Any] | EnqueueItem, /, *, app: Mainspring) -> None: ...
def enqueue_on_commit(session: Any, job: Any, /, *args: Any, **kwargs: Any) -> None:
    """Enqueue after this session has committed. If it rolls back, or the savepoint around this call does, nothing is
    enqueued.

    enqueue_on_commit(session, send_receipt, order_id=42)
    enqueue_on_commit(session, send_receipt.options(start_at="10m"), order_id=42)
    enqueue_on_commit(session, ("send-receipt", {"order_id": 42}), app=app)  # by name

    If the enqueue fails, the commit is not undone: `session.commit()` raises the error of the enqueue with a note that
    names the job, and the log has the error too.
    """
    app, call = _read(job, args, kwargs)
    _check_params(app, call)
    after_commit(_checked(session), lambda: _enqueue(app, call))


def _read(job: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Mainspring, Call]:
    if isinstance(job, Request):
        return job._app, read_item(job.bind(*args, **kwargs))
    app = kwargs.get("app")
    if not isinstance(app, Mainspring):
        remedy = "Write enqueue_on_commit(session, item, app=app)"
        raise InvalidValue("app", presentable(app), "the Mainspring object, unless the job is a handle", remedy)
    return app, read_item(job)


def _check_params(app: Mainspring, call: Call) -> None:
    """Unknown names and wrong types, before anything is committed. The job may add what is missing."""
    handler, params, _ = call
    registry = app._runtime.registry
    if isinstance(handler, str) and handler not in registry.names:
        return
    signature = registry.resolve(handler).signature
    try:
        signature.validate(params or {}, partial=True)
    except InvalidValue as error:
        raise hide(error, signature.secret) from None


def _checked(session: Any) -> Any:
    try:
        plain = plain_session(session)
    except TypeError:
        raise InvalidValue("session", type(session).__name__, ALLOWED) from None
    if inside_event_loop() and plain is session and not concurrency.in_greenlet():
        remedy = "Use an AsyncSession here, or a function that is not a coroutine"
        raise InvalidValue("session", "a blocking Session inside an event loop", "an AsyncSession", remedy)
    return plain


def _enqueue(app: Mainspring, call: Call) -> None:
    handler, params, options = call
    try:
        if inside_event_loop():
            _await(app.enqueue(handler, params, **options))
        else:
            app.sync.enqueue(handler, params, **options)
    except Exception as error:
        what = f"the transaction is committed, but job {handler!r} was not enqueued"
        error.add_note(what)
        logger.error("%s: %s", what, error)
        raise


def _await(coroutine: Coroutine[Any, Any, T]) -> T:
    """An `AsyncSession` commits inside a greenlet, which may wait for the event loop. SQLAlchemy 2.1 renamed it."""
    wait: Any = getattr(concurrency, "await_", None) or concurrency.await_only
    return wait(coroutine)  # type: ignore[no-any-return]


__all__ = ["enqueue_on_commit"]
