"""Controls: what operators set on a queue, a handler or a worker at run time, and all processes obey.

A control is an entry of kind `control`. All are in one scope, so that a node reads them in one step; the key is the
subject and its name, such as `queue:mail`. A control of the subject `job` says that executions of an on-demand job may
be held because the job was paused; the pause itself is on the job's row.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from .limits import Limit
from .store.entries import Entry, EntryKind
from .time.instants import Micros, maybe_datetime
from .values.reading import SYSTEM_PREFIX

KIND: EntryKind = "control"
Subject: TypeAlias = Literal["queue", "handler", "worker", "job"]
SUBJECTS: tuple[Subject, ...] = ("queue", "handler", "worker", "job")


class Walk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A walk over the waiting executions that a changed control concerns. It began at `since` and has reached the
    execution `place`. The node `walker` continues it until `until`; after that, another node may. `last` marks the
    second pass, which covers what nodes wrote before they had read the change."""

    since: Micros
    place: str = ""
    walker: str = ""
    until: Micros = 0
    last: bool = False


class Control(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`paused` is when it was paused (of a worker: drained), until `until` if that is set. `concurrency` and `rate`
    (per second) are the ceilings of a queue. `job_id` is the incarnation of a job."""

    paused: Micros | None = None
    by: str | None = None
    note: str | None = None
    until: Micros | None = None
    concurrency: int | None = None
    rate: float | None = None
    limited_by: str | None = None
    limited: Micros | None = None
    job_id: str | None = None
    walk: Walk | None = None

    @property
    def empty(self) -> bool:
        """Whether it sets nothing, and nothing is left to do for it."""
        return self.paused is None and not self.has_ceiling and self.walk is None

    @property
    def has_ceiling(self) -> bool:
        return self.concurrency is not None or self.rate is not None

    @property
    def paused_at(self) -> datetime | None:
        return maybe_datetime(self.paused)

    @property
    def until_at(self) -> datetime | None:
        return maybe_datetime(self.until)


class Known(msgspec.Struct, frozen=True):
    """A control as it is stored."""

    subject: Subject
    name: str
    control: Control
    version: int


def key_of(subject: Subject, name: str) -> str:
    return f"{subject}:{name}"


def control_entry(subject: Subject, name: str, control: Control) -> Entry:
    return Entry(kind=KIND, key=key_of(subject, name), body=msgspec.json.encode(control).decode())


def known_control(entry: Entry) -> Known | None:
    """The control in this entry; None if a newer release wrote it and this one cannot read it."""
    subject, _, name = entry.key.partition(":")
    control = entry.read(Control)
    if control is None or subject not in SUBJECTS:
        return None
    return Known(subject, name, control, entry.version)


# --- the ceiling of a queue, as its executions carry it

CONCURRENCY_KEY, RATE_KEY = f"{SYSTEM_PREFIX}queue:", f"{SYSTEM_PREFIX}queue-rate:"


def ceiling_limits(queue: str, control: Control) -> tuple[Limit, ...]:
    """The limits that executions of this queue carry while the ceiling is in force."""
    limits = []
    if control.concurrency is not None:
        limits.append(Limit(f"{CONCURRENCY_KEY}{queue}", concurrency=control.concurrency))
    if control.rate is not None:
        limits.append(Limit(f"{RATE_KEY}{queue}", rate=control.rate))
    return tuple(limits)


def is_ceiling(key: str) -> bool:
    """Whether a limit is the ceiling of a queue, and not a limit of a job."""
    return key.startswith((CONCURRENCY_KEY, RATE_KEY))
