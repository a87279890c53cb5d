"""Error groups as users see and steer them: list, show, mute, retry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from ...model.errors import InvalidValue
from ...model.execution import ExecutionRow, State
from ...model.labels import error_label
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import ExecutionQuery
from ...model.time.instants import Micros, maybe_datetime, to_datetime, to_micros
from ...model.values.ids import Chance
from ...model.values.payload import safe_text
from ...model.values.reading import SYSTEM_PREFIX, choice, instant
from ..auditing import audit_record
from ..filters.fields import past_instant
from ..ports import Store
from . import rules
from .open_failures import OpenFailures, open_failures
from .records import (
    GROUPS,
    KIND,
    MOST_GROUPS,
    MUTES,
    OTHER,
    SAMPLES,
    ErrorGroup,
    ErrorGroupNotFound,
    ListedGroup,
    Mute,
    Samples,
    group_of,
    mute_entry,
)

ErrorOrder: TypeAlias = Literal["last_seen", "first_seen", "count"]
SHOWN = 20
"""How many jobs and tenants of a group are shown, those with the most failures."""
LONGEST_NOTE = 1_000
PAGE = 500
MOST_JOBS, LOOKED_AT, MOST_OTHERS = 100, 20, 5
"""To find unmuted failures: how many jobs with muted errors are read, and for each how many of its newest failures and
of its other errors."""
_FAILED = frozenset({State.FAILED})


class Affected(msgspec.Struct, frozen=True):
    """A job or a tenant in which an error occurred, and how many attempts failed there."""

    name: str
    """The name of the job or tenant."""
    count: int
    """How many attempts failed there."""


class MuteView(msgspec.Struct, frozen=True):
    """A mute of an error group: it fires no alerts."""

    at: datetime
    """When it was muted."""
    by: str
    """Who muted it."""
    note: str
    """What they wrote about it."""
    until: datetime | None
    """When it ends; None if it does not."""


class SampleView(msgspec.Struct, frozen=True):
    """One failure of the group, with the traceback of its attempt."""

    execution_id: str
    """The execution that failed."""
    at: datetime
    """When it failed."""
    error: str
    """The exception and its message."""
    traceback: str
    """The traceback of the attempt."""


class ErrorGroupView(msgspec.Struct, frozen=True, kw_only=True):
    """Failures that are the same error."""

    id: str
    """Its fingerprint."""
    type: str
    """The class of the exception, with its module."""
    message: str
    """Its message, with the parts that differ left out."""
    frame: str
    """The place in your code that raised it."""
    count: int
    """How many attempts failed."""
    failures: int
    """After how many of them no attempt was left."""
    first_seen_at: datetime
    """When the first one failed."""
    last_seen_at: datetime
    """When the last one failed."""
    trend: tuple[int, ...]
    """The failed attempts in each of the last 24 hours, the oldest first."""
    jobs: list[Affected]
    """The 20 jobs with the most failures."""
    jobs_total: int
    """In how many jobs it occurred, counted up to 100."""
    tenants: list[Affected]
    """The 20 tenants with the most failures."""
    tenants_total: int
    """For how many tenants it occurred, counted up to 100."""
    first_release: str | None
    """The release of your application in which it was first seen."""
    last_release: str | None
    """The release in which it was last seen."""
    execution_id: str | None
    """The last execution in which it occurred."""
    mute: MuteView | None
    """The mute, if it is muted."""
    sample: SampleView | None = None
    """The last failure with its traceback; only `app.errors.get` reads it."""
    first_sample: SampleView | None = None
    """The first failure with its traceback; only `app.errors.get` reads it."""
    open_failures: int | None = None
    """How many failures were not retried since; only `app.errors.get` counts them."""
    last_retry_id: str | None = None
    """The newest execution that retried one of them; only `app.errors.get` reads it."""

    @property
    def short_type(self) -> str:
        """The exception's class without its module."""
        return self.type.rpartition(".")[2]

    @property
    def muted(self) -> bool:
        """Whether it fires no alerts now."""
        return self.mute is not None


class ErrorGroupPage(msgspec.Struct, frozen=True):
    """`total` is how many there are on all pages."""

    items: list[ErrorGroupView]
    total: int


class ErrorGroups:
    def __init__(self, store: Store, chance: Chance) -> None:
        self._store, self._chance = store, chance

    # --- reading ------------------------------------------------------------------------------------------
    async def find(
        self,
        *,
        job: str | None = None,
        tenant: str | None = None,
        since: Any = None,
        muted: bool | None = None,
        sort: ErrorOrder = "last_seen",
        limit: int | None = None,
        offset: int = 0,
    ) -> ErrorGroupPage:
        """The groups that match, the last seen first, or in another order. There are never more than 2,000 groups,
        which bounds the work."""
        choice("sort", sort, get_args(ErrorOrder))
        mutes, now = await self._mutes(), await self._store.now()
        begin = None if since is None else past_instant("since", since, now)
        by_name = job is not None or tenant is not None
        found = [
            (listed, entry)
            for entry in await self._entries()
            if (listed := _listed(entry, by_name)) is not None
            and listed.attempts
            and (not by_name or _occurred(listed, job, tenant))
            and (begin is None or listed.last_seen >= begin)
            and (muted is None or muted == _lasts(mutes.get(listed.id), now))
        ]
        found.sort(key=lambda each: (_rank(each[0], sort), each[0].id), reverse=True)
        page = found[offset : None if limit is None else offset + limit]
        groups = [group for _, entry in page if (group := group_of(entry)) is not None]
        return ErrorGroupPage([_view(group, mutes.get(group.id), now) for group in groups], len(found))

    async def get(self, id: str) -> ErrorGroupView:
        """One group with a traceback; `ErrorGroupNotFound` if there is none of this id."""
        group = await self._read(id)
        (mutes, now), samples = (await self._mutes([id]), await self._store.now()), await self._samples(id)
        view = _view(group, mutes.get(id), now)
        found = await self.open_failures(view)
        return msgspec.structs.replace(
            view,
            sample=_sample(samples.newest),
            first_sample=_sample(samples.first),
            open_failures=found.count,
            last_retry_id=found.last_retry,
        )

    async def open_failures(self, group: ErrorGroupView) -> OpenFailures:
        """How many of its failures were not retried since."""
        return await open_failures(self._store, group.id, group.failures)

    async def failures_by_tenant(self) -> dict[str, int]:
        """Failed attempts of the last 24 hours by tenant, including muted ones, without those of Mainspring's own jobs.
        A group counts up to 100 tenants in each four hours."""
        now, found = await self._store.now(), Counter[str]()
        for group in await self._all():
            if not group.jobs or not all(job.startswith(SYSTEM_PREFIX) for job in group.jobs):
                found.update(group.lately(now))
        return dict(found)

    async def unmuted_failures(self) -> dict[str, Micros]:
        """For each job in which a muted error occurred: when it last failed with an error that is not muted, 0 if no
        recent failure did. This costs one read if nothing is muted."""
        now, mutes = await self._store.now(), await self._mutes()
        quiet = {id: mute for id, mute in mutes.items() if mute.lasts(now)}
        jobs = dict.fromkeys(job for mute in quiet.values() for job in mute.jobs)
        found: dict[str, Micros] = {}
        groups: list[ErrorGroup] | None = None
        for job in list(jobs)[:MOST_JOBS]:
            muted = {id for id, mute in quiet.items() if mute.covers(job)}
            failed = await self._failed(job, LOOKED_AT)
            times = [each.finished or 0 for each in failed if each.error_group not in muted]
            if not times and len(failed) == LOOKED_AT:  # the muted error occurs so often that it hides the others
                if groups is None:
                    groups = sorted(await self._all(), key=attrgetter("last_seen"), reverse=True)
                others = [each for each in groups if job in each.jobs and each.id not in muted]
                times = [await self._failed_last(job, each) for each in others[:MOST_OTHERS]]
            found[job] = max(times, default=0)
        return found

    async def _failed(self, job: str, limit: int, *labels: str) -> list[ExecutionRow]:
        return await self._store.find(ExecutionQuery(job=job, states=_FAILED, labels=labels, limit=limit))

    async def _failed_last(self, job: str, group: ErrorGroup) -> Micros:
        """When the job last failed with this error. The executions that `other` counts have no label to find them
        by."""
        if group.id == OTHER:
            return group.last_seen
        failed = await self._failed(job, 1, error_label(group.id))
        return max((each.finished or 0 for each in failed if each.error_group == group.id), default=0)

    # --- steering -----------------------------------------------------------------------------------------
    async def mute(self, id: str, *, note: str = "", until: Any = None, by: str = "system") -> ErrorGroupView:
        """Fire no alerts for this group until the given time, or until the error changes: until it occurs in a job or
        in a release that had not shown it."""
        end, now = None if until is None else to_micros(instant("until", until)), await self._store.now()
        if end is not None and end <= now:
            raise InvalidValue("until", to_datetime(end).isoformat(), "a time in the future")
        mute = rules.mute_of(await self._read(one_error(id)), now, by, safe_text(note, LONGEST_NOTE), end)
        audit = audit_record(self._chance, "mute", f"error:{id}", by, now, after=_words(mute))
        await self._store.write_entries([EntryWrite(entry=mute_entry(id, mute), audit=audit)])
        return await self.get(id)

    async def unmute(self, id: str, *, by: str = "system") -> ErrorGroupView:
        """Let this group fire alerts again. Nothing changes for a group that is not muted."""
        await self._read(id)
        for present in await self._store.entries(KIND, MUTES, [id]):
            now = await self._store.now()
            before = None if (mute := present.read(Mute)) is None else _words(mute)
            audit = audit_record(self._chance, "unmute", f"error:{id}", by, now, before=before)
            await self._store.write_entries([EntryWrite(entry=present, remove=True, audit=audit)])
        return await self.get(id)

    # --- parts --------------------------------------------------------------------------------------------
    async def _all(self) -> list[ErrorGroup]:
        found = [group_of(entry) for entry in await self._entries()]
        return [group for group in found if group is not None and group.attempts]

    async def _entries(self) -> list[Entry]:
        found: list[Entry] = []
        after = ""
        while page := await self._store.list_entries(KIND, GROUPS, after=after, limit=PAGE):
            after = page[-1].key
            found += page
            if len(page) < PAGE:
                break
        return found

    async def _read(self, id: str) -> ErrorGroup:
        entry = next(iter(await self._store.entries(KIND, GROUPS, [id])), None)
        group = None if entry is None else group_of(entry)
        if group is None or (group.id == OTHER and not group.attempts):
            raise ErrorGroupNotFound(id, [each.id for each in await self._all()])
        return group

    async def _mutes(self, ids: list[str] | None = None) -> dict[str, Mute]:
        if ids is None:
            entries = await self._store.list_entries(KIND, MUTES, limit=MOST_GROUPS)
        else:
            entries = await self._store.entries(KIND, MUTES, ids)
        return {entry.key: mute for entry in entries if (mute := entry.read(Mute)) is not None}

    async def _samples(self, id: str) -> Samples:
        entry = next(iter(await self._store.entries(SAMPLES, "", [id])), None)
        return Samples() if entry is None else entry.read(Samples) or Samples()


def failed_with(id: str) -> dict[str, str]:
    """The filter of the executions that failed for good with this error."""
    return {"error_group": one_error(id), "status": "failed"}


def one_error(id: str) -> str:
    """Refuse the group `other`, which counts different errors."""
    if id == OTHER:
        raise InvalidValue("id", id, "the group of one error", "This one counts different errors: choose by error text")
    return id


def _listed(entry: Entry, whole: bool) -> ErrorGroup | ListedGroup | None:
    return entry.read(ErrorGroup) if whole else entry.read(ListedGroup)


def _occurred(group: ErrorGroup | ListedGroup, job: str | None, tenant: str | None) -> bool:
    return isinstance(group, ErrorGroup) and job in (None, *group.jobs) and tenant in (None, *group.tenants)


def _rank(group: ErrorGroup | ListedGroup, order: ErrorOrder) -> int:
    return {"last_seen": group.last_seen, "first_seen": group.first_seen, "count": group.attempts}[order]


def _lasts(mute: Mute | None, now: Micros) -> bool:
    return mute is not None and mute.lasts(now)


def _view(group: ErrorGroup, mute: Mute | None, now: Micros) -> ErrorGroupView:
    shown = None
    if mute is not None and mute.lasts(now):
        shown = MuteView(to_datetime(mute.at), mute.by, mute.note, maybe_datetime(mute.until))
    return ErrorGroupView(
        id=group.id,
        type=group.type,
        message=group.message,
        frame=group.frame,
        count=group.attempts,
        failures=group.failures,
        first_seen_at=to_datetime(group.first_seen),
        last_seen_at=to_datetime(group.last_seen),
        trend=group.trend(now),
        jobs=_most(group.jobs),
        jobs_total=len(group.jobs),
        tenants=_most(group.tenants),
        tenants_total=len(group.tenants),
        first_release=group.first_release or None,
        last_release=group.releases[-1] if group.releases else None,
        execution_id=group.execution or None,
        mute=shown,
    )


def _most(counts: Mapping[str, int]) -> list[Affected]:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Affected(name, count) for name, count in ranked[:SHOWN]]


def _sample(sample: Any) -> SampleView | None:
    if sample is None:
        return None
    return SampleView(sample.execution, to_datetime(sample.at), sample.error, sample.traceback)


def _words(mute: Mute) -> str:
    fields = {"note": mute.note, "until": maybe_datetime(mute.until)}
    return msgspec.json.encode({name: value for name, value in fields.items() if value}).decode()
