"""The ledger of missed runs: one stored entry for each stretch of missed ticks, and how they are listed.

Keys begin with the first missed tick, counted backwards from the end of time, so that a list of the newest reads no
more than it shows.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from ...model.store.entries import Entry
from ...model.time.instants import Micros, to_datetime, to_micros
from ...model.values.reading import choice, identifier, instant, whole
from ..ports import Store
from ..queries.execution_lists import MAX_OFFSET, MAX_PAGE
from ..queries.walked_pages import Bounds, page_of

KIND: Literal["expected"] = "expected"
LOOKED_AT = 10_000
"""Entries that one page reads."""

MissedReason: TypeAlias = Literal["no_scheduler", "scheduler_behind", "no_worker"]
"""No scheduler was alive when the runs were reported; or one was, and had not materialised them; or they waited, and no
worker took them."""
REASONS: tuple[str, ...] = get_args(MissedReason)

_END_OF_TIME = 10**18 - 1
_KEY = re.compile(r"[0-9]{18}:.+")


class MissedEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stretch of missed ticks up to `last`, reported at `at`. Until the report is `confirmed`, the entry also keeps
    how far the stretch had been reported before."""

    job: str
    last: Micros
    count: int
    at: Micros
    exact: bool = True
    schedulers: int | None = None
    waiting: bool = False
    confirmed: bool = True
    last_before: Micros | None = None
    count_before: int = 0

    def reported(self) -> tuple[Micros | None, int]:
        """The last tick that was reported for sure, and how many had been by then."""
        return (self.last, self.count) if self.confirmed else (self.last_before, self.count_before)

    @property
    def reason(self) -> MissedReason | None:
        if self.waiting:
            return "no_worker"
        if self.schedulers is None:
            return None
        return "scheduler_behind" if self.schedulers else "no_scheduler"


class MissedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Scheduled runs of a job that did not happen, one after the other."""

    job: str
    """The job."""
    first_at: datetime
    """The time of the first missed run."""
    last_at: datetime
    """The time of the last missed run."""
    count: int
    """How many runs were missed."""
    exact: bool
    """False if there were too many to count."""
    reason: MissedReason | None
    """Why they did not happen, as far as could be seen: no scheduler ran, or it was behind."""
    reported_at: datetime
    """When they were last reported."""


class MissedFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which stretches to list; None matches everything. Times are those of the first missed tick."""

    job: str | None = None
    reason: str | None = None
    since: Micros | None = None
    until: Micros | None = None

    @property
    def narrow(self) -> bool:
        return self.job is not None or self.reason is not None

    def admits(self, entry: MissedEntry) -> bool:
        return self.job in (None, entry.job) and self.reason in (None, entry.reason)


class MissedPage(msgspec.Struct, frozen=True):
    """`after` is the cursor of the next page; None when everything has been read."""

    items: list[MissedRuns]
    after: str | None


class MissedLedger:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(
        self, wanted: MissedFilter, *, limit: int = 50, offset: int = 0, after: str | None = None
    ) -> MissedPage:
        """Newest first. A page that is shorter than asked for is the last one only if it has no cursor."""
        whole("limit", limit, 1, MAX_PAGE)
        whole("offset", offset, 0, MAX_OFFSET)
        end = None if wanted.since is None else _beyond(wanted.since)

        async def read(after: str | None, size: int) -> list[Entry]:
            return await self._store.list_entries(KIND, "", after=after or "", before=end, limit=size)

        found, cursor = await page_of(
            read,
            Bounds(limit, offset, MAX_PAGE, LOOKED_AT),
            max(after or "", "" if wanted.until is None else _beyond(wanted.until)),
            key=lambda entry: entry.key,
            admits=lambda entry: _KEY.fullmatch(entry.key) is not None and wanted.admits(decode(entry)),
            narrow=wanted.narrow,
        )
        return MissedPage([_runs(entry) for entry in found], cursor)

    async def all(self, wanted: MissedFilter) -> list[MissedRuns]:
        """The missed runs of the last 30 days, newest first."""
        found: list[MissedRuns] = []
        after: str | None = None
        while True:
            page = await self.page(wanted, limit=MAX_PAGE, after=after)
            found += page.items
            if (after := page.after) is None:
                return found


def missed_filter(job: Any = None, reason: Any = None, since: Any = None, until: Any = None) -> MissedFilter:
    """The filters of a list of missed runs, checked."""
    return MissedFilter(
        job=None if job is None else identifier("job", job),
        reason=None if reason is None else choice("reason", reason, REASONS),
        since=None if since is None else to_micros(instant("since", since)),
        until=None if until is None else to_micros(instant("until", until)),
    )


def entry_key(job_id: str, first: Micros) -> str:
    return f"{_backwards(first)}:{job_id}"


def decode(entry: Entry) -> MissedEntry:
    return msgspec.json.decode(entry.body, type=MissedEntry)


def encode(key: str, missed: MissedEntry) -> Entry:
    return Entry(kind=KIND, key=key, body=msgspec.json.encode(missed).decode())


def _runs(entry: Entry) -> MissedRuns:
    missed = decode(entry)
    return MissedRuns(
        job=missed.job,
        first_at=to_datetime(_END_OF_TIME - int(entry.key.partition(":")[0])),
        last_at=to_datetime(missed.last),
        count=missed.count,
        exact=missed.exact,
        reason=missed.reason,
        reported_at=to_datetime(missed.at),
    )


def _backwards(at: Micros) -> str:
    return f"{_END_OF_TIME - max(at, 0):018d}"


def _beyond(at: Micros) -> str:
    """After all keys of this instant and before those of earlier ones: the semicolon follows the colon."""
    return f"{_backwards(at)};"
