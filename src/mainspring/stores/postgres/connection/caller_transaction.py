"""Enqueue inside a transaction that the caller holds open on a connection of their own (ENQ-2).

Whatever the driver, it is one call of the schema's function `enqueue` with one JSON argument. Nothing is committed
here, and a key that is taken does not abort the transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

import msgspec
import psycopg
from psycopg.rows import tuple_row

from ....model.errors import InvalidValue
from ....model.execution import ExecutionRow
from ....model.store.messages import Added
from ..database import explained, state_of
from ..executions.insert import SortedRows, sorted_by_kind
from ..executions.rows import as_json

_MISSING = frozenset({"3F000", "42883", "42P01"})  # no such schema, function, table
_ALLOWED = "a connection of psycopg, asyncpg, SQLAlchemy (also a session) or Django"

RunStatement: TypeAlias = Callable[[Any, str, str], Any]
"""Runs `SELECT schema.enqueue(request)` and returns the text of its answer, or something to await for it."""


def add_in(schema: str, connection: Any, executions: Sequence[ExecutionRow]) -> list[Added] | Awaitable[list[Added]]:
    if not executions:
        return []
    kinds = sorted_by_kind(executions)
    run, awaited = _way(connection)
    request = as_json(kinds.wire())
    if awaited:
        return _later(run, connection, schema, request, kinds)
    try:
        return _answer(kinds, run(connection, schema, request))
    except Exception as error:
        raise _explained(error, schema) from error


async def _later(run: RunStatement, connection: Any, schema: str, request: str, kinds: SortedRows) -> list[Added]:
    try:
        return _answer(kinds, await run(connection, schema, request))
    except Exception as error:
        raise _explained(error, schema) from error


def _answer(kinds: SortedRows, text: str) -> list[Added]:
    answer = msgspec.json.decode(text)
    return kinds.answer(answer["known"] or (), answer["outcomes"] or ())


def _explained(error: Exception, schema: str) -> BaseException:
    if state_of(error) in _MISSING:
        remedy = "Use the database of the store, or run `mainspring db migrate` on this one"
        return InvalidValue("connection", "a database without our tables", f"one with the schema {schema!r}", remedy)
    return explained(error)


# --- drivers: each is imported by the caller, not by us -------------------------------------------------------------


def _way(connection: Any) -> tuple[RunStatement, bool]:
    """The function that runs a statement on this connection, and whether it must be awaited."""
    if isinstance(connection, psycopg.AsyncConnection):
        return _psycopg_async, True
    if isinstance(connection, psycopg.Connection):
        return _psycopg, False
    for names, run, awaited in _WAYS:
        if any(_is_a(connection, name) for name in names):
            return run, awaited
    if callable(getattr(connection, "cursor", None)):
        return _dbapi, False
    raise InvalidValue("connection", type(connection).__name__, _ALLOWED)


def _is_a(connection: Any, name: str) -> bool:
    """By the names of its classes, so that nothing is imported that the application does not use."""
    return any(f"{kind.__module__}.{kind.__qualname__}" == name for kind in type(connection).__mro__)


def _psycopg(connection: Any, schema: str, request: str) -> Any:
    """With a cursor of our own: the connection's may return other rows, or take other placeholders."""
    with psycopg.RawCursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(_text(schema), (request,))
        return _first(cursor.fetchone())


async def _psycopg_async(connection: Any, schema: str, request: str) -> Any:
    async with psycopg.AsyncRawCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(_text(schema), (request,))
        return _first(await cursor.fetchone())


async def _asyncpg(connection: Any, schema: str, request: str) -> Any:
    return await connection.fetchval(_text(schema), request)


def _text(schema: str) -> str:
    return f"SELECT {schema}.enqueue($1::text::json)::text"


def _dbapi(connection: Any, schema: str, request: str) -> Any:
    """Django, psycopg2: a cursor that takes %s."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {schema}.enqueue(%s::json)::text", (request,))
        return _first(cursor.fetchone())


def _alchemy(connection: Any, schema: str, request: str) -> Any:
    return connection.execute(_alchemy_text(schema), {"request": request}).scalar_one()


async def _alchemy_async(connection: Any, schema: str, request: str) -> Any:
    return (await connection.execute(_alchemy_text(schema), {"request": request})).scalar_one()


def _alchemy_text(schema: str) -> Any:
    text = import_module("sqlalchemy").text
    return text(f"SELECT CAST({schema}.enqueue(CAST(CAST(:request AS text) AS json)) AS text)")


def _first(row: Any) -> Any:
    """The only column, whatever kind of rows the caller's cursor returns."""
    return next(iter(row.values())) if isinstance(row, dict) else row[0]


_WAYS: list[tuple[tuple[str, ...], RunStatement, bool]] = [
    (("asyncpg.connection.Connection", "asyncpg.pool.PoolConnectionProxy"), _asyncpg, True),
    (
        (
            "sqlalchemy.ext.asyncio.engine.AsyncConnection",
            "sqlalchemy.ext.asyncio.session.AsyncSession",
            "sqlalchemy.ext.asyncio.scoping.async_scoped_session",
        ),
        _alchemy_async,
        True,
    ),
    (
        (
            "sqlalchemy.engine.base.Connection",
            "sqlalchemy.orm.session.Session",
            "sqlalchemy.orm.scoping.scoped_session",
        ),
        _alchemy,
        False,
    ),
]
