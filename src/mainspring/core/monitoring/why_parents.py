"""What a job that comes after others waits for: executions of its parents that live, and endings that have come; and
for which of them it waits in vain."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...model.execution import LIVE, ExecutionRow
from ...model.job import Job
from ...model.store.messages import ExecutionQuery
from ...model.time.instants import Micros
from ..dependencies.compatibility import ancestry, never_meet
from ..dependencies.joins import KIND, Join, readable
from ..dependencies.rules import is_whole
from ..ports import Store

NAMED = 5
LOOKED_AT = 500


class HalfJoined(msgspec.Struct, frozen=True):
    """Endings that wait for those of other parents: `group` is the window, tick or flow that they share."""

    group: str
    ended: dict[str, str]
    missing: tuple[str, ...]


class WaitingFor(msgspec.Struct, frozen=True):
    """`gone` are parents that do not exist, `cancelled` those that will not run, `paused` those that do not tick, with
    who paused them; `never_meet`: two that have nothing in common."""

    alive: list[ExecutionRow] = []
    half: list[HalfJoined] = []
    gone: tuple[str, ...] = ()
    cancelled: dict[str, Micros] = {}
    paused: dict[str, str | None] = {}
    never_meet: tuple[str, str] | None = None


async def waiting_for(store: Store, job: Job) -> WaitingFor:
    """A few of each, the newest ones; of the parents that it waits for in vain, all."""
    after = job.spec.after
    alive: list[ExecutionRow] = []
    for name in after[:NAMED]:
        found = await store.find(ExecutionQuery(job=name, states=LIVE, limit=LOOKED_AT))
        alive += [each for each in found if is_whole(each)][:NAMED]
    parents = {parent.name: parent for parent in await store.jobs(list(after))}
    gone = tuple(name for name in after if name not in parents)
    cancelled = {name: parent.cancelled for name, parent in parents.items() if parent.cancelled is not None}
    paused = {name: parent.paused_by for name, parent in parents.items() if parent.paused is not None}
    if len(after) < 2:
        return WaitingFor(alive, gone=gone, cancelled=cancelled, paused=paused)
    entries = await store.list_entries(KIND, job.name, limit=LOOKED_AT)
    joins = [(entry.key, join) for entry in entries if (join := readable(entry)) is not None]
    half = [(key, join) for key, join in joins if join.job_id == job.id and _waits(join, after)]
    half.sort(key=lambda each: each[1].moved, reverse=True)
    pair = never_meet(job.name, await ancestry(store, {job.name: job.spec}, [job.name]))
    return WaitingFor(alive, [_half(key, join, job) for key, join in half[:NAMED]], gone, cancelled, paused, pair)


def _waits(join: Join, after: Sequence[str]) -> bool:
    """What one tenant alone has come to waits until it has been handed over with what others had come to."""
    waiting = [each for each in join.parents.values() if each.id not in join.handed and each.id not in join.covered_by]
    return bool(waiting) and bool(set(after) - join.parents.keys())


def _half(key: str, join: Join, job: Job) -> HalfJoined:
    ended = {name: parent.id for name, parent in join.parents.items()}
    return HalfJoined(key, ended, tuple(name for name in job.spec.after if name not in ended))
