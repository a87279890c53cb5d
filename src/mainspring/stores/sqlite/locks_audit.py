"""Named locks, and the audit trail."""

from __future__ import annotations

from ...model.store.messages import Audit, LockRow
from ...model.time.instants import seconds_to_micros
from .transaction import Transaction


def lock_take(tx: Transaction, name: str, owner: str, ttl: float) -> LockRow | None:
    if tx.value("lock_held", name, tx.now):
        return None
    token = tx.value("lock_token")
    expires = tx.now + seconds_to_micros(ttl)
    tx.run("lock_take", name, owner, token, tx.now, expires)
    return LockRow(name=name, owner=owner, token=token, acquired=tx.now, expires=expires)


def lock_renew(tx: Transaction, name: str, token: int, ttl: float) -> bool:
    return tx.run("lock_renew", name, token, tx.now + seconds_to_micros(ttl), tx.now) == 1


def lock_release(
    tx: Transaction, name: str, token: int | None, keep_for: float = 0.0, audit: Audit | None = None
) -> bool:
    if keep_for > 0:
        released = tx.run("lock_keep", name, token, tx.now + seconds_to_micros(keep_for), tx.now) == 1
    else:
        released = tx.run("lock_drop", name, token, tx.now) == 1
    if released:
        tx.audit(audit)
    return released


def locks(tx: Transaction) -> list[LockRow]:
    fields = LockRow.__struct_fields__
    return [LockRow(**dict(zip(fields, row, strict=True))) for row in tx.rows("locks", tx.now)]


def audits(tx: Transaction, target: str | None = None, limit: int = 100, before: str | None = None) -> list[Audit]:
    found = tx.rows("audit_all", limit, before) if target is None else tx.rows("audit_target", target, limit, before)
    return [Audit(**dict(zip(Audit.__struct_fields__, row, strict=True))) for row in found]


def prune_audits(tx: Transaction, before: str, limit: int) -> int:
    return tx.run("audit_prune", before, max(limit, 0))
