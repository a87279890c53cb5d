"""The audit trail in pages: by target along an index, by everything else among the records walked over."""

from __future__ import annotations

import msgspec

from ..model.changes import Audit
from ..model.ids import first_id
from ..model.instants import Micros
from ..model.values import whole, words
from .ports import Store
from .queries import MAX_FILTER, MAX_OFFSET, MAX_PAGE

MILLISECOND = 1_000
_TEXTS = ("target", "actor", "action", "request_id")
LOOKED_AT = 10_000
"""Records that one page looks at. Who asks for what is rare gets a short page, and goes on from its cursor."""


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which records are wanted; what is None does not matter."""

    target: str | None = None
    actor: str | None = None
    action: str | None = None
    request_id: str | None = None
    since: Micros | None = None
    until: Micros | None = None

    @property
    def narrow(self) -> bool:
        return any(value is not None for value in (self.actor, self.action, self.request_id, self.since, self.until))

    def admits(self, audit: Audit) -> bool:
        return (
            self.actor in (None, audit.actor)
            and self.action in (None, audit.action)
            and self.request_id in (None, audit.request_id)
            and (self.since is None or self.since <= audit.at)
            and (self.until is None or audit.at < self.until)
        )

    def starts_at(self, cursor: str | None) -> str | None:
        """Ids are ordered by time, to the millisecond: what came later need not be looked at."""
        if self.until is None:
            return cursor
        latest = first_id(self.until + MILLISECOND)
        return latest if cursor is None else min(cursor, latest)

    def is_over(self, audit: Audit) -> bool:
        """Whether all that come after this one, in a list that begins with the newest, are too old."""
        return self.since is not None and audit.at < self.since - MILLISECOND


class AuditPage(msgspec.Struct, frozen=True):
    """`before` is where to go on; None when all that there is has been looked at."""

    records: list[Audit]
    before: str | None


class AuditLists:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(
        self, wanted: AuditFilter, *, limit: int = 50, offset: int = 0, before: str | None = None
    ) -> AuditPage:
        """Newest first. A page that is shorter than asked for is the last one only if it has no cursor."""
        whole("limit", limit, 1, MAX_PAGE)
        whole("offset", offset, 0, MAX_OFFSET)
        for name in _TEXTS:
            if (given := getattr(wanted, name)) is not None:
                words(name, given, MAX_FILTER)
        before = wanted.starts_at(before)
        found: list[Audit] = []
        looked_at, wanted_all = 0, offset + limit
        while True:  # one more than is shown tells whether there is a next page
            size = MAX_PAGE if wanted.narrow else min(MAX_PAGE, wanted_all + 1 - len(found))
            records = await self._store.audits(wanted.target, size, before)
            found += [record for record in records if wanted.admits(record)]
            looked_at += len(records)
            if len(found) > wanted_all:
                return AuditPage(found[offset:wanted_all], found[wanted_all - 1].id)
            if len(records) < size or wanted.is_over(records[-1]):
                return AuditPage(found[offset:], None)
            before = records[-1].id
            if looked_at >= LOOKED_AT and (len(found) >= offset or looked_at >= 10 * LOOKED_AT):
                return AuditPage(found[offset:], before)
