"""The jobs that a job follows: the names that `after=` takes, and the search for a job that would follow itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ...model.errors import InvalidValue
from ...model.values.payload import presentable
from ...model.values.reading import identifier

MAX_PARENTS = 100

ParentsOf: TypeAlias = Callable[[str], Sequence[str] | None]
"""Finds the jobs that a job of this name follows; None counts as none."""


def parents_in(value: Any) -> tuple[str, ...]:
    """The jobs that `after=` names: one, or several."""
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, Iterable) or isinstance(value, Mapping | bytes):
        raise InvalidValue("after", presentable(value), "the name of a job, or a list of names")
    names = tuple(dict.fromkeys(identifier("after", name) for name in value))
    if len(names) > MAX_PARENTS:
        raise InvalidValue("after", presentable(len(names)), f"at most {MAX_PARENTS} jobs")
    return names


def find_cycle(parents_of: ParentsOf, name: str) -> list[str] | None:
    """The path from this job through its parents back to itself, if there is one: each job follows the next.

    >>> find_cycle({"a": ["c"], "b": ["a"], "c": ["b"]}.get, "a")
    ['a', 'c', 'b', 'a']
    """
    came_from: dict[str, str] = {}
    waiting = [(parent, name) for parent in parents_of(name) or ()]
    while waiting:
        job, child = waiting.pop()
        if job in came_from:
            continue
        came_from[job] = child
        if job == name:
            return _path(came_from, name)
        waiting += [(parent, job) for parent in parents_of(job) or ()]
    return None


def _path(came_from: Mapping[str, str], name: str) -> list[str]:
    path = [name, came_from[name]]
    while path[-1] != name:
        path.append(came_from[path[-1]])
    return path[::-1]


def refuse_cycle(parents_of: ParentsOf, name: str, remedy: str = "") -> None:
    """Raise `InvalidValue` with the whole path if the job would follow itself."""
    if (path := find_cycle(parents_of, name)) is not None:
        allowed = "jobs that do not depend on this one themselves"
        raise InvalidValue(
            "after", path[1], allowed, f"This is a cycle: {' after '.join(path)}{remedy and '. '}{remedy}"
        )
