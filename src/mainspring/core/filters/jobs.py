"""The filters of jobs: the table, and what a filter asks of a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from ...model.execution import State
from ...model.job import JobState
from ...model.labels import owner_label, tag_label
from ...model.store.messages import JobFacts, JobQuery
from ...model.time.instants import SECOND, Micros
from ...model.values.reading import SYSTEM_PREFIX
from ..rules.job_commands import facts_of
from .fields import Field, read_fields, refuse_nothing, table_of

OVERDUE = 60 * SECOND
"""A job is overdue if its next run should have begun longer ago than this. Schedulers are never that late."""

FIELDS = table_of(
    Field(
        name="status",
        kind="choice",
        choices=tuple(state.value for state in JobState),
        several=True,
        meaning="the status",
    ),
    Field(name="handler", meaning="the handler"),
    Field(name="queue", meaning="the queue"),
    Field(name="name", meaning="part of the name"),
    Field(name="search", meaning="part of the name, the handler or the description"),
    Field(name="metadata", kind="pair", several=True, meaning="a field of the metadata, such as `site=news`"),
    Field(name="tag", several=True, meaning="a tag"),
    Field(name="owner", meaning="the owner"),
    Field(
        name="origin", kind="choice", choices=("code", "api"), meaning="where it was created: in code, or by a request"
    ),
    Field(
        name="last_status",
        kind="choice",
        choices=tuple(state.value for state in State),
        several=True,
        meaning="the status of its last run; `failed` and `partial` together find every job that needs attention",
    ),
    Field(name="paused", kind="switch", meaning="whether it is paused"),
    Field(name="orphaned", kind="switch", meaning="whether no running process declares it any more"),
    Field(
        name="overdue",
        kind="switch",
        only_true=True,
        meaning="its next tick was due more than a minute ago, and no scheduler has created its execution",
    ),
)
"""Every filter of jobs by its name."""


class JobFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checked filter of jobs; None does not filter. `system` includes Mainspring's own jobs."""

    status: tuple[str, ...] | None = None
    handler: str | None = None
    queue: str | None = None
    name: str | None = None
    search: str | None = None
    metadata: tuple[str, ...] | None = None
    tag: tuple[str, ...] | None = None
    owner: str | None = None
    origin: str | None = None
    last_status: tuple[str, ...] | None = None
    paused: bool | None = None
    orphaned: bool | None = None
    overdue: bool | None = None
    system: bool = False


def job_filter(given: Mapping[str, Any], *, system: bool = False) -> JobFilter:
    """Check the given filter."""
    return JobFilter(**read_fields(FIELDS, given, now=0), system=system)


def bulk_job_filter(given: Mapping[str, Any]) -> JobFilter:
    """The filter of a bulk action, which needs at least one field."""
    found = job_filter(given)
    refuse_nothing(FIELDS, {name: value for name, value in given.items() if value is not None})
    return found


def job_query(wanted: JobFilter, paging: JobQuery, now: Micros) -> JobQuery | None:
    """The query to the store for this filter, except for orphans. None if no job can match."""
    facts = facts_wanted(wanted)
    if facts is None:
        return None
    owner = () if wanted.owner is None else (owner_label(wanted.owner),)
    tags = map(tag_label, wanted.tag or ())
    metadata = (f"meta.{pair}" for pair in wanted.metadata or ())
    named = any((value or "").startswith(SYSTEM_PREFIX) for value in (wanted.handler, wanted.queue, wanted.name))
    return replace(
        paging,
        any_of=facts,
        handler=wanted.handler,
        queue=wanted.queue,
        origin=wanted.origin,
        search=None if wanted.search is None else wanted.search.lower(),
        name_part=None if wanted.name is None else wanted.name.lower(),
        labels=(*owner, *tags, *metadata),
        due_before=now - OVERDUE if wanted.overdue else None,
        without_system=not wanted.system and not named,
    )


def facts_wanted(wanted: JobFilter) -> tuple[JobFacts, ...] | None:
    """Alternatives of which a job must meet one. Empty if every job qualifies, None if no job can."""
    if (wanted.status, wanted.paused, wanted.last_status) == (None, None, None):
        return ()
    last = None if wanted.last_status is None else frozenset(map(State, wanted.last_status))
    states = [JobFacts()] if wanted.status is None else _of_states(wanted.status)
    return tuple(narrowed for facts in states for narrowed in _narrowed(facts, wanted.paused, last)) or None


def _of_states(names: Iterable[str]) -> list[JobFacts]:
    return [facts for name in dict.fromkeys(names) for facts in facts_of(JobState(name))]


def _narrowed(facts: JobFacts, paused: bool | None, last: frozenset[State | None] | None) -> list[JobFacts]:
    """The facts narrowed by the other filters; empty if they contradict each other."""
    if paused is not None and facts.paused not in (None, paused):
        return []
    if last is not None and facts.last is not None and not last & facts.last:
        return []
    both = facts.last if last is None else last if facts.last is None else last & facts.last
    return [replace(facts, paused=facts.paused if paused is None else paused, last=both)]
