"""The audit trail in pages: by target along an index; other filters are applied to the records that are read."""

from __future__ import annotations

import msgspec

from ...model.errors import InvalidValue
from ...model.store.messages import Audit
from ...model.time.instants import Micros
from ...model.values.ids import first_id
from ...model.values.reading import whole, words
from ..ports import Store
from .execution_lists import MAX_FILTER, MAX_OFFSET, MAX_PAGE
from .walked_pages import Bounds, Read, page_of

MILLISECOND = 1_000
_TEXTS = ("target", "actor", "action", "request_id")
LOOKED_AT = 10_000
"""Records that are read for one page."""


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a list of audit records; None filters nothing."""

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

    # Ids are ordered by time, to the millisecond: records outside the range need not be read.
    def newest(self, cursor: str | None) -> str | None:
        """Where a list from the newest to the oldest starts, or continues from a cursor."""
        if self.until is None:
            return cursor
        latest = first_id(self.until + MILLISECOND)
        return latest if cursor is None else min(cursor, latest)

    def oldest(self, cursor: str | None) -> str:
        """Where a list from the oldest to the newest starts."""
        return max(cursor or "", "" if self.since is None else first_id(self.since - MILLISECOND))

    def all_older(self, audit: Audit) -> bool:
        """Whether all earlier records are too old."""
        return self.since is not None and audit.at < self.since - MILLISECOND

    def all_newer(self, audit: Audit) -> bool:
        """Whether all later records are too new."""
        return self.until is not None and audit.at >= self.until + MILLISECOND


class AuditPage(msgspec.Struct, frozen=True):
    """`cursor` is where to continue; None after the last record."""

    records: list[Audit]
    cursor: str | None


class AuditLists:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(
        self,
        wanted: AuditFilter,
        *,
        limit: int = 50,
        offset: int = 0,
        cursor: str | None = None,
        oldest_first: bool = False,
    ) -> AuditPage:
        """One page, newest first by default. A page shorter than `limit` is the last one only if it has no cursor."""
        whole("limit", limit, 1, MAX_PAGE)
        whole("offset", offset, 0, MAX_OFFSET)
        for name in _TEXTS:
            if (given := getattr(wanted, name)) is not None:
                words(name, given, MAX_FILTER)
        found, after = await page_of(
            await self._forwards(wanted) if oldest_first else self._backwards(wanted),
            Bounds(limit, offset, MAX_PAGE, LOOKED_AT),
            wanted.oldest(cursor) if oldest_first else wanted.newest(cursor),
            key=lambda audit: audit.id,
            admits=wanted.admits,
            over=wanted.all_newer if oldest_first else wanted.all_older,
            narrow=wanted.narrow,
        )
        return AuditPage(found, after)

    def _backwards(self, wanted: AuditFilter) -> Read[Audit]:
        async def read(before: str | None, size: int) -> list[Audit]:
            return await self._store.audits(wanted.target, size, before)

        return read

    async def _forwards(self, wanted: AuditFilter) -> Read[Audit]:
        """The index by target starts with the newest: all records of the target are read, so there is a limit."""
        of_target = None if wanted.target is None else await self._all_of(wanted.target)

        async def read(after: str | None, size: int) -> list[Audit]:
            if of_target is not None:
                return [audit for audit in of_target if audit.id > (after or "")][:size]
            records = await self._store.copy_out("audits", after or "", size)
            return [record for record in records if isinstance(record, Audit)]

        return read

    async def _all_of(self, target: str) -> list[Audit]:
        """Oldest first."""
        found: list[Audit] = []
        while page := await self._store.audits(target, MAX_PAGE, found[-1].id if found else None):
            found += page
            if len(found) > LOOKED_AT:
                allowed = f"-at for a target that has more than {LOOKED_AT} records"
                raise InvalidValue("sort", "at", allowed, "Sort by -at, the newest first, or leave the target out")
        return found[::-1]
