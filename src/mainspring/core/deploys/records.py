"""What processes record about themselves, in entries of kind `process`.

- scope "", key the worker's id: one record for each start of a process. Ids are ordered by time.
- scope "stopped", key an id made from the time of its end: a second record of the same process.
- scope "application", key its name: the releases seen of an application, and a hash of the code of its jobs.
- scope "code", key the application: the code of each job that it declares. It is written when it changes.

The worker's row says what runs now, and is removed soon after the process ends. Of these records, starts and stops stay
for 30 days, the others for good.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import WorkerInfo
from ...model.time.instants import SECOND, Micros, seconds_to_micros
from ...model.values.ids import event_id
from ..views.job import Declarer

KEPT_FOR = 30 * 86_400 * SECOND
"""Microseconds for which the record of a start is kept."""
MOST_RELEASES = 100
"""How many releases of an application are remembered, the newest ones."""


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The start of a process, or its end if `stopped` is set. A process that was killed leaves no record of its end."""

    id: str
    host: str
    pid: int
    version: str
    started: Micros
    application: str = ""
    release: str = ""
    roles: tuple[str, ...] = ()
    jobs: int = 0
    stopped: Micros | None = None


class ReleaseSeen(msgspec.Struct, frozen=True, kw_only=True):
    """When a release of an application first started, and on which release of Mainspring."""

    release: str
    version: str
    at: Micros


class ApplicationRecord(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    releases: tuple[ReleaseSeen, ...] = ()


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A job that several running applications declare with different code."""

    job: str
    declarers: tuple[Declarer, ...]


# --- entries ----------------------------------------------------------------------------------------------------


def process_write(record: ProcessRecord) -> EntryWrite:
    return EntryWrite(entry=Entry(kind="process", key=record.id, body=_json(record)), seen_version=None)


def stop_write(record: ProcessRecord, stopped: Micros) -> EntryWrite:
    body = _json(msgspec.structs.replace(record, stopped=stopped))
    entry = Entry(kind="process", scope="stopped", key=event_id(stopped, record.id), body=body)
    return EntryWrite(entry=entry, seen_version=None)


def application_write(application: str, record: ApplicationRecord, seen: Entry | None) -> EntryWrite:
    entry = Entry(kind="process", scope="application", key=application, body=_json(record))
    return EntryWrite(entry=entry, seen_version=0 if seen is None else seen.version)


def code_write(application: str, code: Mapping[str, str]) -> EntryWrite:
    return EntryWrite(
        entry=Entry(kind="process", scope="code", key=application, body=_json(dict(code))), seen_version=None
    )


def record_of(info: WorkerInfo) -> ProcessRecord:
    return ProcessRecord(
        id=info.id,
        host=info.host,
        pid=info.pid,
        version=info.version,
        started=info.started,
        application=info.application,
        release=info.release,
        roles=info.roles,
        jobs=len(info.declares),
    )


def with_release(known: ApplicationRecord | None, info: WorkerInfo, code: str) -> ApplicationRecord:
    """The record of an application after this start; the same object if nothing is new."""
    known = known or ApplicationRecord(code=code)
    if all((each.release, each.version) != (info.release, info.version) for each in known.releases):
        seen = ReleaseSeen(release=info.release, version=info.version, at=info.started)
        return ApplicationRecord(code=code, releases=(*known.releases, seen)[-MOST_RELEASES:])
    return known if known.code == code else msgspec.structs.replace(known, code=code)


def hash_of(code: Mapping[str, str]) -> str:
    return hashlib.sha256(_json(dict(sorted(code.items()))).encode()).hexdigest()[:16]


def expired(entry: Entry, now: Micros) -> bool:
    record = entry.read(ProcessRecord)
    return record is not None and (record.stopped or record.started) < now - KEPT_FOR


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


# --- rules ------------------------------------------------------------------------------------------------------


def live_applications(workers: Iterable[WorkerInfo], now: Micros, lease: float) -> frozenset[str]:
    """The applications of the running processes. Processes of the release before do not name theirs."""
    return frozenset(
        worker.application
        for worker in workers
        if worker.application and worker.seen >= now - seconds_to_micros(worker.lease or lease)
    )


SEPARATE = "give each a database of its own"


def conflict_words(declarers: Iterable[Declarer]) -> str:
    places = " and ".join(f"{each.application} as {each.handler}" for each in declarers)
    return f"running applications declare it with different code: {places}"


def conflicts_of(code: Mapping[str, Mapping[str, str]]) -> list[Conflict]:
    """Jobs that these applications declare with different code.

    >>> conflicts_of({"shop": {"sync": "shop.jobs.sync#1"}, "crm": {"sync": "crm.tasks.sync#2", "mail": "crm.mail#3"}})
    [Conflict(job='sync', declarers=(Declarer(application='crm', handler='crm.tasks.sync'), \
Declarer(application='shop', handler='shop.jobs.sync')))]
    """
    found = []
    for job in sorted({job for jobs in code.values() for job in jobs}):
        places = {application: jobs[job] for application, jobs in sorted(code.items()) if job in jobs}
        if len(set(places.values())) > 1:
            declarers = tuple(
                Declarer(application=application, handler=place.rpartition("#")[0])
                for application, place in places.items()
            )
            found.append(Conflict(job=job, declarers=declarers))
    return found
