"""Executions of paused on-demand jobs: a control beside the job says that some executions may be held.

The pause is on the job's row. A worker that claims an execution of such a job holds it: its due time moves a century
ahead. After the resume a walk moves it back. The control is written before the pause and stays until that walk is over.
So after a crash at any point, no execution is held for ever, and none begins during the pause.
"""

from __future__ import annotations

from ...model.controls import KIND, Control, Known, Walk, control_entry
from ...model.job import Job
from ...model.store.entries import EntryWrite
from ...model.time.instants import SECOND, Micros
from ..ports import Store

SLOWEST_PAUSE: Micros = 5 * SECOND
"""How long it may take from writing the control of a pause to writing the job's row."""
STEP = 200
"""How many jobs are read at a time, so that other tasks get their turn in between."""


async def prepare_hold(store: Store, job: Job) -> None:
    """Called before a pause of an on-demand job is written: make sure that every node will learn of it."""
    await _put(store, job, Control(paused=job.paused, job_id=job.id))


async def settle_hold(store: Store, before: Job, after: Job) -> None:
    """Called after a command was written. If the pause was written late, upkeep may have removed its control, which is
    put back. If a pause has ended, the walk of its control begins."""
    if after.holds_executions:
        await _put(store, after, Control(paused=after.paused, job_id=after.id))
    elif before.holds_executions:
        await _put(store, after, Control(paused=before.paused, job_id=before.id, walk=Walk(since=after.updated)))


async def _put(store: Store, job: Job, control: Control) -> None:
    entry = control_entry("job", job.name, control)
    for stored in await store.entries(KIND, "", [entry.key]):
        if stored.body == entry.body:
            return
    await store.write_entries([EntryWrite(entry=entry)])


def may_be_left_over(known: Known, now: Micros) -> bool:
    """Whether the control of a job that is not paused is a leftover. A young one may belong to a pause that is about to
    be written."""
    return known.control.walk is not None or now - (known.control.paused or 0) > SLOWEST_PAUSE


async def paused_jobs(store: Store, found: list[Known]) -> dict[str, Job]:
    """The jobs that controls name and that hold executions, by name."""
    ids = {each.name: each.control.job_id for each in found if each.subject == "job"}
    names, held = list(ids), dict[str, Job]()
    for place in range(0, len(names), STEP):
        jobs = await store.jobs(names[place : place + STEP])
        held |= {job.name: job for job in jobs if job.readable and job.holds_executions and job.id == ids[job.name]}
    return held
