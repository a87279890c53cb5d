"""Named locks and the audit trail."""

from __future__ import annotations

from ...model.store.messages import Audit, LockRow
from ...model.time.instants import seconds_to_micros
from .connection.pool import Row
from .database import Database
from .executions.rows import as_json


async def lock_take(db: Database, name: str, owner: str, ttl: float) -> LockRow | None:
    rows = await db.rows("lock_take", name, owner, seconds_to_micros(ttl))
    return _lock(rows[0]) if rows else None


async def lock_renew(db: Database, name: str, token: int, ttl: float) -> bool:
    return bool(await db.rows("lock_renew", name, token, seconds_to_micros(ttl)))


async def lock_release(db: Database, name: str, token: int | None, keep_for: float, audit: Audit | None) -> bool:
    """A lock let go stays as a row that is over: nobody sees it, and the next holder takes it over."""
    record = None if audit is None else as_json([audit])
    return bool(await db.rows("lock_release", name, token, seconds_to_micros(keep_for), record))


async def locks(db: Database) -> list[LockRow]:
    return [_lock(row) for row in await db.rows("locks", repeat=True)]


def _lock(row: Row) -> LockRow:
    return LockRow(**dict(zip(LockRow.__struct_fields__, row, strict=True)))


async def audits(db: Database, target: str | None, limit: int, before: str | None) -> list[Audit]:
    rows = await db.rows("audits", target, limit, before, repeat=True)
    return [Audit(**dict(zip(Audit.__struct_fields__, row, strict=True))) for row in rows]
