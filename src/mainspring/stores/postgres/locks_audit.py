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


async def lock_release(
    db: Database, name: str, token: int | None, keep_for: float = 0.0, audit: Audit | None = None
) -> bool:
    """A released lock stays as an expired row, which nobody sees and the next holder takes over."""
    record = None if audit is None else as_json([audit])
    return bool(await db.rows("lock_release", name, token, seconds_to_micros(keep_for), record))


async def locks(db: Database) -> list[LockRow]:
    return [_lock(row) for row in await db.rows("locks", repeat=True)]


def _lock(row: Row) -> LockRow:
    return LockRow(**dict(zip(LockRow.__struct_fields__, row, strict=True)))


async def audits(db: Database, target: str | None = None, limit: int = 100, before: str | None = None) -> list[Audit]:
    rows = await db.rows("audits", target, limit, before, repeat=True)
    return [Audit(**dict(zip(Audit.__struct_fields__, row, strict=True))) for row in rows]


async def prune_audits(db: Database, before: str, limit: int) -> int:
    return int(await db.value("audits_prune", before, max(limit, 0)))
