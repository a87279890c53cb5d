"""What a job says about the jobs it comes after, checked; and the one thing that no job may: come after itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from ...model.errors import InvalidValue
from ...model.policies import FailedParent
from ...model.values.payload import presentable
from ...model.values.reading import choice, identifier, time_of_day

MAX_PARENTS = 100


def flow_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """`after`, `on_failed_parent` and `not_before` as they are kept, checked."""
    not_before = given.get("not_before")
    return {
        "after": parents_in(given.get("after", ())),
        "on_failed_parent": choice("on_failed_parent", given.get("on_failed_parent", "skip"), get_args(FailedParent)),
        "not_before": None if not_before is None else time_of_day("not_before", not_before).isoformat(),
    }


def refuse_without_parents(named: Mapping[str, Any], after: Any) -> None:
    """What is said about the jobs that it follows would do nothing for a job that follows none."""
    for name in ("not_before", "on_failed_parent"):
        if not after and named.get(name) not in (None, "skip"):
            remedy = "Say which jobs it follows: after="
            raise InvalidValue(name, presentable(named[name]), "nothing without after=", remedy)


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


def find_cycle(parents: Mapping[str, Sequence[str]], name: str) -> list[str] | None:
    """The way from this job through its parents back to itself, if there is one: each comes after the next.

    >>> find_cycle({"a": ["c"], "b": ["a"], "c": ["b"]}, "a")
    ['a', 'c', 'b', 'a']
    """
    came_from: dict[str, str] = {}
    waiting = [(parent, name) for parent in parents.get(name, ())]
    while waiting:
        job, child = waiting.pop()
        if job in came_from:
            continue
        came_from[job] = child
        if job == name:
            return _way(came_from, name)
        waiting += [(parent, job) for parent in parents.get(job, ())]
    return None


def _way(came_from: Mapping[str, str], name: str) -> list[str]:
    way = [name, came_from[name]]
    while way[-1] != name:
        way.append(came_from[way[-1]])
    return way[::-1]


class Declared(Mapping[str, Sequence[str]]):
    """The parents of jobs that are being declared, read from their options as they are asked for. One that a
    placeholder stands for is known at start-up only, and everything is looked at again then."""

    def __init__(self, options: Mapping[str, Mapping[str, Any]]) -> None:
        self._options = options

    def __getitem__(self, name: str) -> Sequence[str]:
        after = self._options[name].get("after")
        return () if after is None or (isinstance(after, str) and "${" in after) else parents_in(after)

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)


def refuse_cycle(parents: Mapping[str, Sequence[str]], name: str, remedy: str = "") -> None:
    if (way := find_cycle(parents, name)) is not None:
        allowed = "jobs that do not come after this one themselves"
        raise InvalidValue("after", way[1], allowed, f"It goes round: {' after '.join(way)}{remedy and '. '}{remedy}")
