"""Whether the endings of several parents can ever belong together: pure rules, and the reads they need.

Endings belong together by window, else by tick, else by flow (`joins.py`). Two parents that start on their own, one
with a window and the other without, share none of these: a job after both would wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import msgspec

from ...model.job import JobSpec
from ..ports import Store


class Origins(msgspec.Struct, frozen=True):
    """Where runs of a job come from: the jobs that start the flow, and what identifies their runs (window or tick).
    `marks` is empty for a job that does not exist or runs on demand, because a caller may choose the window."""

    jobs: frozenset[str]
    marks: frozenset[str]

    def can_meet(self, other: Origins) -> bool:
        if self.jobs & other.jobs or not (self.marks and other.marks):
            return True
        return bool(self.marks & other.marks)


def never_meet(name: str, specs: Mapping[str, JobSpec]) -> tuple[str, str] | None:
    """Two parents of this job whose endings can never belong together, the one with a window first; None if there
    are no such two. `specs` holds the job and all its ancestors."""
    origins = {parent: _origins(parent, specs) for parent in specs[name].after}
    for one, other in combinations(origins, 2):
        if not origins[one].can_meet(origins[other]):
            return (one, other) if "window" in origins[one].marks else (other, one)
    return None


def _origins(name: str, specs: Mapping[str, JobSpec]) -> Origins:
    jobs, marks, on_demand = set(), set(), False
    seen, left = {name}, [name]
    while left:
        each = left.pop()
        spec = specs.get(each)
        if spec is None or spec.trigger is not None or not spec.after:
            jobs.add(each)
        if spec is None or (spec.trigger is None and not spec.after):
            on_demand = True
            continue
        if spec.trigger is not None:
            marks.add("tick" if spec.window is None else "window")
        left += [parent for parent in spec.after if parent not in seen]
        seen.update(spec.after)
    return Origins(frozenset(jobs), frozenset() if on_demand else frozenset(marks))


def describe_conflict(pair: tuple[str, str]) -> str:
    with_window, without = pair
    return (
        f"its parents {with_window!r} and {without!r} never meet: runs of {with_window!r} have a window and those of "
        f"{without!r} have none. Give both the same kind of window, or take one of them out of `after`"
    )


async def ancestry(store: Store, known: Mapping[str, JobSpec], names: Iterable[str]) -> dict[str, JobSpec]:
    """These jobs and all their ancestors, from `known` or else as stored."""
    found: dict[str, JobSpec] = {}
    asked: set[str] = set()
    wanted = set(names)
    while wanted:
        asked |= wanted
        missing = sorted(wanted - known.keys())
        new = {name: known[name] for name in wanted & known.keys()}
        stored = await store.jobs(missing) if missing else []
        new |= {job.name: job.spec for job in stored if job.readable}
        found |= new
        wanted = {parent for spec in new.values() for parent in spec.after} - asked
    return found
