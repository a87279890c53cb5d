"""Error groups as they are stored: entries into which notes of failures are counted.

`GROUPS` holds one entry for each group, with the id of the group as its key. The entry `other` counts the errors that
found no place, and lists the ids of all groups: see `folding`. `MUTES` holds one entry for each muted
group, so that every process can often read these few entries.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal, TypeAlias

import msgspec

from ...model.errors import NotFound
from ...model.store.entries import Entry, EntryKind
from ...model.time.instants import SECOND, Micros

KIND: EntryKind = "error_group"
SAMPLES: EntryKind = "error_sample"
NOTES: EntryKind = "failure"
GROUPS, MUTES = "", "muted"
OTHER = "other"
"""The group that counts the errors for which there is no place."""

MOST_GROUPS = 2_000
MOST_NAMES = 100
"""How many jobs, and how many tenants, a group counts by name."""
MOST_RELEASES = 20
HOUR: Micros = 3_600 * SECOND
HOURS = 24
SPAN = 4
"""The length in hours of the spans in which failures are counted by tenant."""

Announcement: TypeAlias = Literal["new", "changed"]


class ErrorGroupNotFound(NotFound):
    noun = "error group"


class Mute(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A mute: the group fires no alerts. It ends when the error occurs in a job or a release that is not listed here;
    `all_jobs` says that there were too many jobs to list."""

    at: Micros
    by: str
    note: str = ""
    until: Micros | None = None
    jobs: tuple[str, ...] = ()
    all_jobs: bool = False
    releases: tuple[str, ...] = ()

    def lasts(self, now: Micros) -> bool:
        return self.until is None or now < self.until

    def covers(self, job: str | None) -> bool:
        """Whether failures in this job fire no alerts."""
        return self.all_jobs or job in self.jobs


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One error: how often it occurred, since when, where.

    `attempts` counts failed attempts, and `failures` those after which no attempt was left. `hours` counts the attempts
    of the last 24 hours by hour, `spans` by tenant and by spans of four hours; both are numbered from the epoch.
    `folded` are the keys of notes that are counted here and may not be removed yet. `announce` is the event that has
    not been handed over to webhooks yet. Only the group `other` uses `ids`.
    """

    id: str
    type: str
    message: str = ""
    frame: str = ""
    attempts: int = 0
    failures: int = 0
    first_seen: Micros = 0
    last_seen: Micros = 0
    hours: dict[int, int] = {}
    jobs: dict[str, int] = {}
    more_jobs: bool = False
    tenants: dict[str, int] = {}
    more_tenants: bool = False
    spans: dict[int, dict[str, int]] = {}
    first_release: str = ""
    releases: tuple[str, ...] = ()
    execution: str = ""
    announce: Announcement | None = None
    announce_at: Micros = 0
    folded: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    version: int = 0

    def trend(self, now: Micros) -> tuple[int, ...]:
        """Failed attempts in each of the last 24 hours, the oldest first."""
        newest = now // HOUR
        return tuple(self.hours.get(hour, 0) for hour in range(newest - HOURS + 1, newest + 1))

    def lately(self, now: Micros) -> Counter[str]:
        """Failed attempts by tenant in the last 20 to 24 hours, in whole spans."""
        newest = now // (SPAN * HOUR)
        found = Counter[str]()
        for span, tenants in self.spans.items():
            if newest - HOURS // SPAN < span <= newest:
                found.update(tenants)
        return found


class ListedGroup(msgspec.Struct, frozen=True, gc=False):
    """The fields of a group by which lists are sorted. Reading only these from an entry takes a tenth of the time."""

    id: str
    attempts: int = 0
    first_seen: Micros = 0
    last_seen: Micros = 0


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A failure of a group with its traceback, copied because executions are pruned."""

    execution: str
    at: Micros
    error: str = ""
    traceback: str = ""


class Samples(msgspec.Struct, frozen=True, omit_defaults=True):
    first: Sample | None = None
    newest: Sample | None = None


def group_of(entry: Entry) -> ErrorGroup | None:
    """The group in this entry; None if a newer release wrote it and this one cannot read it."""
    found = entry.read(ErrorGroup)
    return None if found is None else msgspec.structs.replace(found, version=entry.version)


def entry_of(group: ErrorGroup) -> Entry:
    body = msgspec.json.encode(msgspec.structs.replace(group, version=0)).decode()
    return Entry(kind=KIND, scope=GROUPS, key=group.id, body=body)


def mute_entry(id: str, mute: Mute) -> Entry:
    return Entry(kind=KIND, scope=MUTES, key=id, body=msgspec.json.encode(mute).decode())


def samples_entry(id: str, samples: Samples) -> Entry:
    return Entry(kind=SAMPLES, key=id, body=msgspec.json.encode(samples).decode())
