"""What a job that comes after others waits for: executions of its parents that live, and endings that have come."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..model.changes import ExecutionQuery
from ..model.execution import LIVE, Execution
from ..model.job import Job
from .dependencies import is_whole
from .joins import KIND, Join, readable
from .ports import Store

NAMED = 5
LOOKED_AT = 500


class HalfJoined(msgspec.Struct, frozen=True):
    """Endings that wait for those of other parents: `group` is the window, tick or flow that they share."""

    group: str
    ended: dict[str, str]
    missing: tuple[str, ...]


class WaitingFor(msgspec.Struct, frozen=True):
    alive: list[Execution] = []
    half: list[HalfJoined] = []


async def waiting_for(store: Store, job: Job) -> WaitingFor:
    """A few of each, the newest ones."""
    after = job.spec.after
    alive: list[Execution] = []
    for name in after[:NAMED]:
        found = await store.find(ExecutionQuery(job=name, states=LIVE, limit=LOOKED_AT))
        alive += [each for each in found if is_whole(each)][:NAMED]
    if len(after) < 2:
        return WaitingFor(alive)
    entries = await store.shelf(KIND, job.name, limit=LOOKED_AT)
    joins = [(entry.key, join) for entry in entries if (join := readable(entry)) is not None]
    half = [(key, join) for key, join in joins if join.job_id == job.id and _waits(join, after)]
    half.sort(key=lambda each: each[1].moved, reverse=True)
    return WaitingFor(alive, [_half(key, join, job) for key, join in half[:NAMED]])


def _waits(join: Join, after: Sequence[str]) -> bool:
    """What one tenant alone has come to waits until it has been handed over with what others had come to."""
    waiting = [each for each in join.parents.values() if each.id not in join.handed and each.id not in join.seen_to]
    return bool(waiting) and bool(set(after) - join.parents.keys())


def _half(key: str, join: Join, job: Job) -> HalfJoined:
    ended = {name: parent.id for name, parent in join.parents.items()}
    return HalfJoined(key, ended, tuple(name for name in job.spec.after if name not in ended))
