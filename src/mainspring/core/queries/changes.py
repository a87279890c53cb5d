"""What changed before it broke: deploys, edits, pauses, controls and the rest, in one list, newest first.

The list is read from existing records: the starts of processes (`core.deploys`), the audit trail, and the creation
times of jobs. A deploy that changes many jobs is one change.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from ...model.job import Job
from ...model.store.messages import Audit, JobQuery
from ...model.time.instants import SECOND, Micros, to_datetime
from ...model.values.ids import first_id
from ...model.values.reading import identifier, whole
from ..deploys.processes import Processes
from ..deploys.records import ProcessRecord, ReleaseSeen
from ..filters.fields import past_instant
from ..ports import Store
from ..views.records import audit_record
from .audit_lists import LOOKED_AT, MILLISECOND
from .execution_lists import MAX_PAGE

T = TypeVar("T")
DEFAULT_SINCE = "24h"
MOST_NAMES = 20
"""How many jobs one change names. It counts all of them."""
TOGETHER = 10 * 60 * SECOND
"""Starts, stops and declarations of one release that follow each other within this time are one change."""
_UNREAD = "older changes were not read, because there are too many: choose a shorter range, or one job"
_WORK = frozenset({"trigger", "retry", "test"})
"""Actions that ask for work and change nothing."""


class RecordedChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `kind` is `deploy` (a release that was never seen before), `start`, `stop` (processes), `created`
    (jobs of code), or the action of the audit record. `unread` ends a list that does not cover the whole range, because
    there are too many records. `jobs` are the first of the `job_count` jobs that it concerns."""

    at: datetime
    """When it happened."""
    kind: str
    """`deploy`, `start`, `stop`, `created`, or the action of the audit record."""
    what: str
    """What happened, in words."""
    by: str | None = None
    """Who did it."""
    target: str | None = None
    """The object that it was done to."""
    application: str | None = None
    """The application that was deployed or started."""
    release: str | None = None
    """The release that was deployed or started."""
    processes: int = 0
    """How many processes it concerns."""
    jobs: tuple[str, ...] = ()
    """The first of the jobs that it concerns."""
    job_count: int = 0
    """How many jobs it concerns."""
    before: Any = None
    """What it was before."""
    after: Any = None
    """What it became."""


class Changes:
    def __init__(self, store: Store) -> None:
        self._store, self._processes = store, Processes(store)

    async def newest(
        self, since: Any = DEFAULT_SINCE, *, until: Any = None, job: str | None = None, limit: int = 100
    ) -> list[RecordedChange]:
        """The newest changes. `since` and `until` are instants, or durations before now."""
        return [change async for change in self.each(since, until=until, job=job, limit=limit)]

    async def each(
        self, since: Any = DEFAULT_SINCE, *, until: Any = None, job: str | None = None, limit: int = 100
    ) -> AsyncIterator[RecordedChange]:
        """The same one at a time: what they changed can be large."""
        whole("limit", limit, 1, MAX_PAGE)
        job = None if job is None else identifier("job", job)
        now = await self._store.now()
        begin = past_instant("since", since, now)
        end = now + SECOND if until is None else past_instant("until", until, now)
        audited, read_from = await self._audited(begin, end, job, limit)
        records, complete_from = await self._processes.between(read_from, end)
        found: list[tuple[datetime, RecordedChange | list[Audit]]] = [
            *((each.at, each) for each in process_changes(records, await self._processes.releases())),
            *((to_datetime(group[-1].at), group) for group in audit_groups(audited)),
            *((each.at, each) for each in created_changes(*await self._created(begin, job))),
        ]
        if complete_from > begin:
            at = to_datetime(complete_from)
            found.append((at, RecordedChange(at=at, kind="unread", what=_UNREAD)))
        first, last = to_datetime(complete_from), to_datetime(end)
        recent = [each for each in found if first <= each[0] < last]
        for _, each in sorted(recent, key=lambda each: each[0], reverse=True)[:limit]:
            yield audit_change(each) if isinstance(each, list) else each
            await asyncio.sleep(0)  # a record with large parameters takes milliseconds to read

    async def _audited(self, begin: Micros, end: Micros, job: str | None, limit: int) -> tuple[list[Audit], Micros]:
        """The audit records, and the instant from which they are complete: a bounded number of records is read."""
        target, before, oldest = None if job is None else f"job:{job}", first_id(end + MILLISECOND), end
        found: list[Audit] = []
        for _ in range(LOOKED_AT // MAX_PAGE):
            page = await self._store.audits(target, MAX_PAGE, before)
            found += [each for each in page if begin <= each.at < end and is_change(each)]
            if len(page) < MAX_PAGE or page[-1].at < begin:
                return found, begin
            before, oldest = page[-1].id, page[-1].at
            if len(_together(reversed(found), _declaration_of, lambda each: each.at)) > limit:
                break
        return found, oldest

    async def _created(self, begin: Micros, job: str | None) -> tuple[list[Job], bool]:
        """Jobs that code declared, oldest first, and whether there are more. Jobs of the API have an audit record
        instead."""
        if job is None:
            query = JobQuery(origin="code", order="created", backwards=True, without_system=True, limit=MAX_PAGE)
            names = (await self._store.find_jobs(query, 1)).names
        else:
            names = [job]
        jobs = await self._store.jobs(names) if names else []
        recent = [each for each in jobs if each.origin == "code" and each.created >= begin]
        return sorted(recent, key=lambda each: each.created), len(recent) == MAX_PAGE


def is_change(audit: Audit) -> bool:
    """Whether it changed something other than a single execution."""
    return audit.action not in _WORK and not audit.target.startswith("execution:")


def process_changes(
    records: Sequence[ProcessRecord], releases: dict[str, tuple[ReleaseSeen, ...]]
) -> list[RecordedChange]:
    """Starts and stops as changes. They are separate, because a process that stops may have started long before."""
    started = [each for each in records if each.stopped is None]
    first_seen = {(name, each.release, each.version): each.at for name, seen in releases.items() for each in seen}
    found = []
    for group in _together(started, _release_of, lambda each: each.started):
        is_new = any(first_seen.get(_release_of(each)) == each.started for each in group)
        found.append(_processes(group, "deploy" if is_new else "start", group[0].started))
    stopped = [each for each in records if each.stopped is not None]
    groups = _together(stopped, _release_of, lambda each: each.stopped or 0)
    return found + [_processes(group, "stop", group[0].stopped or 0) for group in groups]


def audit_groups(audits: Iterable[Audit]) -> list[list[Audit]]:
    """The audit records of each change, oldest first."""
    return _together(sorted(audits, key=lambda each: each.at), _declaration_of, lambda each: each.at)


def audit_change(group: Sequence[Audit]) -> RecordedChange:
    record = audit_record(group[-1])
    names = [each.target.removeprefix("job:") for each in group if each.target.startswith("job:")]
    if len(group) == 1:
        what, before, after = f"{record.action} {record.target}", record.before, record.after
    else:
        what, before, after = f"{record.action} {_named(names)}", None, None
    return RecordedChange(
        at=record.at,
        kind=record.action,
        what=what,
        by=record.actor,
        target=record.target if len(group) == 1 else None,
        jobs=tuple(names[:MOST_NAMES]),
        job_count=len(names),
        before=before,
        after=after,
    )


def created_changes(created: Sequence[Job], more: bool = False) -> list[RecordedChange]:
    """Jobs that a deploy declared for the first time. `more` says that others were created together with the oldest of
    these."""
    found: list[RecordedChange] = []
    for group in _together(created, lambda each: each.origin, lambda each: each.created):
        names = [each.name for each in group]
        least = "more than " if more and not found else ""
        found.append(
            RecordedChange(
                at=to_datetime(group[0].created),
                kind="created",
                what=f"created {least}{_named(names)}",
                by="code",
                jobs=tuple(names[:MOST_NAMES]),
                job_count=len(names),
            )
        )
    return found


def _processes(group: Sequence[ProcessRecord], kind: str, at: Micros) -> RecordedChange:
    one = group[0]
    hosts = sorted({each.host for each in group})
    release = f"release {one.release}" if one.release else "without a release name"
    count = f"{len(group)} process{'es' if len(group) > 1 else ''}"
    verb = "stopped" if kind == "stop" else "started"
    places = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
    return RecordedChange(
        at=to_datetime(at),
        kind=kind,
        what=f"{one.application or 'an application'}, {release}: {count} {verb} on {places} (Mainspring {one.version})",
        application=one.application or None,
        release=one.release or None,
        processes=len(group),
    )


def _release_of(record: ProcessRecord) -> tuple[str, str, str]:
    return record.application, record.release, record.version


def _declaration_of(audit: Audit) -> Hashable:
    """The key of a change: all declarations by one actor share it, any other record has its own."""
    return (audit.actor,) if audit.action == "declare" else audit.id


def _named(names: Sequence[str]) -> str:
    """`3 jobs: a, b, c`; `job a`."""
    if len(names) == 1:
        return f"job {names[0]}"
    shown = ", ".join(names[:3])
    return f"{len(names):,} jobs: {shown}{', ...' if len(names) > 3 else ''}"


def _together(items: Iterable[T], key: Callable[[T], Hashable], at: Callable[[T], Micros]) -> list[list[T]]:
    """Groups of items with the same key, each item within `TOGETHER` of the one before. The items come oldest first."""
    groups: list[list[T]] = []
    open_groups: dict[Hashable, list[T]] = {}
    for item in items:
        group = open_groups.get(key(item))
        if group is None or at(item) - at(group[-1]) > TOGETHER:
            group = open_groups[key(item)] = []
            groups.append(group)
        group.append(item)
    return groups
