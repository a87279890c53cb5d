"""The ledger of missed runs as it is kept and listed: an entry of the shelf for each stretch of missed ticks.

Keys begin with the first missed tick, counted backwards from the end of time. So a list that begins with the newest
reads no more than it shows, however many entries there are.
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
from ..queries.queries import MAX_OFFSET, MAX_PAGE
from ..queries.walked_pages import Bounds, page_of

KIND: Literal["expected"] = "expected"
LOOKED_AT = 10_000
"""Entries that one page looks at."""

MissedReason: TypeAlias = Literal["no_scheduler", "scheduler_behind"]
"""Nobody who schedules was heard of when it was told; or somebody was, and had not made the runs happen."""
REASONS: tuple[str, ...] = get_args(MissedReason)

_END_OF_TIME = 10**18 - 1
_KEY = re.compile(r"[0-9]{18}:.+")
"""Those of another form, such as an older release made, are not listed."""


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an entry says: how far the missed ticks of this stretch were told of. While that is not `sure`, how far they
    had been told before is kept beside it."""

    job: str
    last: Micros
    count: int
    at: Micros
    exact: bool = True
    schedulers: int | None = None
    sure: bool = True
    last_before: Micros | None = None
    count_before: int = 0

    def for_sure(self) -> tuple[Micros | None, int]:
        """The last one that is known to have been told, and how many were by then."""
        return (self.last, self.count) if self.sure else (self.last_before, self.count_before)

    @property
    def reason(self) -> MissedReason | None:
        if self.schedulers is None:
            return None
        return "scheduler_behind" if self.schedulers else "no_scheduler"


class MissedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of missed ticks as the ledger has it, when they were last told of, and why nobody made them happen, as
    far as could be seen then. `exact` is false when there were too many to count."""

    job: str
    first_at: datetime
    last_at: datetime
    count: int
    exact: bool
    reason: MissedReason | None
    told_at: datetime


class MissedFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which stretches are wanted; what is None does not matter. Times are those of the first missed tick."""

    job: str | None = None
    reason: str | None = None
    since: Micros | None = None
    until: Micros | None = None

    @property
    def narrow(self) -> bool:
        return self.job is not None or self.reason is not None

    def admits(self, told: Told) -> bool:
        return self.job in (None, told.job) and self.reason in (None, told.reason)


class MissedPage(msgspec.Struct, frozen=True):
    """`after` is where to go on; None when all that there is has been looked at."""

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
            admits=lambda entry: _KEY.fullmatch(entry.key) is not None and wanted.admits(read_told(entry)),
            narrow=wanted.narrow,
        )
        return MissedPage([_runs(entry) for entry in found], cursor)

    async def all(self, wanted: MissedFilter) -> list[MissedRuns]:
        """Of the last 30 days, the newest first."""
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


def read_told(entry: Entry) -> Told:
    return msgspec.json.decode(entry.body, type=Told)


def write_told(key: str, told: Told) -> Entry:
    return Entry(kind=KIND, key=key, body=msgspec.json.encode(told).decode())


def _runs(entry: Entry) -> MissedRuns:
    told = read_told(entry)
    return MissedRuns(
        job=told.job,
        first_at=to_datetime(_END_OF_TIME - int(entry.key.partition(":")[0])),
        last_at=to_datetime(told.last),
        count=told.count,
        exact=told.exact,
        reason=told.reason,
        told_at=to_datetime(told.at),
    )


def _backwards(at: Micros) -> str:
    return f"{_END_OF_TIME - max(at, 0):018d}"


def _beyond(at: Micros) -> str:
    """After all keys of this instant, and before those of earlier ones: a semicolon comes just after the colon."""
    return f"{_backwards(at)};"
