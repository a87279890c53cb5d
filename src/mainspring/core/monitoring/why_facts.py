"""The facts from which `why` explains why a job is not running, gathered from the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from ...model.controls import Control, Subject
from ...model.execution import LIVE, ExecutionRow, State
from ...model.job import Job
from ...model.limits import decode_limits
from ...model.store.messages import ExecutionQuery, WorkerInfo
from ...model.time.instants import Micros
from ..controls.commands import read_controls
from ..dependencies.compatibility import ancestry, never_meet
from ..dependencies.joins import KIND, Join
from ..dependencies.rules import is_whole
from ..ports import Store
from ..queries.queries import Queries
from ..rules.controls import set_now
from ..views.job import JobView, job_of

LIVE_READ = 100
RUNNING_READ = WAITING_READ = 1_000
PLACES = 5
PARENTS_NAMED = 5
PARENTS_READ = 500


class Place(msgspec.Struct, frozen=True):
    """The position of an execution among the waiting ones of its own share, and how many other shares wait with the
    same queue, handler and priority, whatever their job. Not `exact` where so many wait that only some were read."""

    number: int
    others: int
    exact: bool = True


class HalfJoined(msgspec.Struct, frozen=True):
    """Parents that have ended and wait for others; `group` is the window, tick or flow that they share."""

    group: str
    ended: dict[str, str]
    missing: tuple[str, ...]


class WaitingFor(msgspec.Struct, frozen=True):
    """What a job with `after` waits for. `gone` are parents that do not exist, `paused` maps parents to who paused
    them, `never_meet` are two parents whose executions can never be joined."""

    alive: list[ExecutionRow] = []
    half: list[HalfJoined] = []
    gone: tuple[str, ...] = ()
    cancelled: dict[str, Micros] = {}
    paused: dict[str, str | None] = {}
    never_meet: tuple[str, str] | None = None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """`alive` are the newest live executions of the job, `workers` the processes with a recent heartbeat."""

    view: JobView
    now: Micros
    workers: Sequence[WorkerInfo]
    alive: Sequence[ExecutionRow]
    holders: Mapping[str, Sequence[ExecutionRow]] = {}
    """Running executions, of any job, that hold the limits which executions of this job wait for, by key."""
    places: Mapping[str, Place] = {}
    """The places of ready executions that take turns with other shares, by id."""
    controls: Mapping[tuple[Subject, str], Control] = {}
    """What operators set on queues and handlers, by subject and name."""
    newest: ExecutionRow | None = None
    """The execution that was created last, whatever its state."""
    waiting_for: WaitingFor = WaitingFor()
    """For a job with `after`."""


async def facts(store: Store, queries: Queries, name: str, only: ExecutionRow | None = None) -> Facts:
    """With `only`, this is the only waiting execution of the job that is looked at."""
    view = await queries.job(name)
    wanted = ExecutionQuery(job_id=job_of(view).id, states=LIVE, limit=LIVE_READ)
    if only is None:
        alive = await store.find(wanted)
    else:
        alive = [only, *await store.find(msgspec.structs.replace(wanted, states=frozenset({State.RUNNING})))]
    now, workers, holders = await store.now(), await queries.workers(), dict[str, list[ExecutionRow]]()
    if any(each.state is State.PENDING for each in alive):
        running = await store.find(ExecutionQuery(states=frozenset({State.RUNNING}), limit=RUNNING_READ))
        holders = _holders(running, alive)
        workers = counted(workers, running) if len(running) < RUNNING_READ else workers
    return Facts(
        view=view,
        now=now,
        workers=workers,
        alive=alive,
        holders=holders,
        places=await _places(store, alive, now),
        controls=set_now(await read_controls(store), now),
        newest=next(iter(await store.find(ExecutionQuery(job_id=job_of(view).id, limit=1))), None),
        waiting_for=await waiting_for(store, job_of(view)) if view.after and only is None else WaitingFor(),
    )


def _holders(running: Sequence[ExecutionRow], alive: Sequence[ExecutionRow]) -> dict[str, list[ExecutionRow]]:
    """A limit is shared by all jobs that name its key."""
    held: dict[str, list[ExecutionRow]] = {each.parked: [] for each in alive if each.parked is not None}
    for each in running if held else ():
        for limit in decode_limits(each.limits) if each.limits is not None else ():
            if limit.key in held:
                held[limit.key].append(each)
    return held


async def _places(store: Store, alive: Sequence[ExecutionRow], now: Micros) -> dict[str, Place]:
    """For the oldest few only: they should have begun by now."""
    chosen = [each for each in alive if is_ready(each, now) and each.share is not None][-PLACES:]
    if not chosen:
        return {}
    pending = frozenset({State.PENDING})
    waiting = await store.find(ExecutionQuery(states=pending, limit=WAITING_READ))
    exact = len(waiting) < WAITING_READ
    places = {}
    for each in chosen:
        place = place_of(each, waiting, now)
        if not exact:  # the newest were read; the older ones of its own job and tenant are counted
            before = ExecutionQuery(job_id=each.job_id, tenant=each.tenant, states=pending, before=each.id)
            same = await store.count(before, WAITING_READ) if each.share == each.tenant else 0
            place = Place(max(place.number, same + 1), place.others, exact=False)
        places[each.id] = place
    return places


def place_of(execution: ExecutionRow, waiting: Sequence[ExecutionRow], now: Micros) -> Place:
    """Executions with the same queue, handler and priority take turns."""
    lane = (execution.queue, execution.handler, execution.priority)
    beside = [each for each in waiting if is_ready(each, now) and (each.queue, each.handler, each.priority) == lane]
    ahead = sum(each.share == execution.share and each.id < execution.id for each in beside)
    return Place(ahead + 1, len({each.share for each in beside} - {execution.share}))


def is_ready(execution: ExecutionRow, now: Micros) -> bool:
    return execution.state is State.PENDING and execution.parked is None and execution.due <= now


def counted(workers: Sequence[WorkerInfo], running: Sequence[ExecutionRow]) -> list[WorkerInfo]:
    """The workers with their current number of running executions; their own is as old as their last heartbeat."""
    owners = Counter(each.owner for each in running)
    return [msgspec.structs.replace(worker, running=owners[worker.id]) for worker in workers]


async def waiting_for(store: Store, job: Job) -> WaitingFor:
    """The newest few of each kind, and all parents that will never come."""
    after = job.spec.after
    alive: list[ExecutionRow] = []
    for name in after[:PARENTS_NAMED]:
        found = await store.find(ExecutionQuery(job=name, states=LIVE, limit=PARENTS_READ))
        alive += [each for each in found if is_whole(each)][:PARENTS_NAMED]
    parents = {parent.name: parent for parent in await store.jobs(list(after))}
    gone = tuple(name for name in after if name not in parents)
    cancelled = {name: parent.cancelled for name, parent in parents.items() if parent.cancelled is not None}
    paused = {name: parent.paused_by for name, parent in parents.items() if parent.paused is not None}
    if len(after) < 2:
        return WaitingFor(alive, gone=gone, cancelled=cancelled, paused=paused)
    entries = await store.list_entries(KIND, job.name, limit=PARENTS_READ)
    joins = [(entry.key, join) for entry in entries if (join := entry.read(Join)) is not None]
    half = [(key, join) for key, join in joins if join.job_id == job.id and _waits(join, after)]
    half.sort(key=lambda each: each[1].moved, reverse=True)
    pair = never_meet(job.name, await ancestry(store, {job.name: job.spec}, [job.name]))
    return WaitingFor(
        alive, [_half(key, join, job) for key, join in half[:PARENTS_NAMED]], gone, cancelled, paused, pair
    )


def _waits(join: Join, after: Sequence[str]) -> bool:
    """Whether an ended parent waits to be handed over, and another parent is missing."""
    waiting = [each for each in join.parents.values() if each.id not in join.handed and each.id not in join.covered_by]
    return bool(waiting) and bool(set(after) - join.parents.keys())


def _half(key: str, join: Join, job: Job) -> HalfJoined:
    ended = {name: parent.id for name, parent in join.parents.items()}
    return HalfJoined(key, ended, tuple(name for name in job.spec.after if name not in ended))
