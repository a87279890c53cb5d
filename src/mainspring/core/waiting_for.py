"""What a job that comes after others waits for: executions of its parents that live, and endings that have come."""

from __future__ import annotations

import msgspec

from ..model.changes import ExecutionQuery
from ..model.execution import LIVE, Execution
from ..model.job import Job
from .dependencies import Join, is_whole
from .dependents import KIND
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
    joins = [(entry.key, msgspec.json.decode(entry.body, type=Join)) for entry in entries]
    half = [(key, join) for key, join in joins if join.job_id == job.id and set(after) - join.parents.keys()]
    half.sort(key=lambda each: each[1].moved, reverse=True)
    return WaitingFor(alive, [_half(key, join, job) for key, join in half[:NAMED]])


def _half(key: str, join: Join, job: Job) -> HalfJoined:
    ended = {name: parent.id for name, parent in join.parents.items()}
    return HalfJoined(key, ended, tuple(name for name in job.spec.after if name not in ended))
