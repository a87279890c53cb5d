"""Rules about controls: what a pause and a ceiling mean for an execution, and how many processes a queue needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ...model.controls import Control, Known, Subject, ceiling_limits, is_ceiling
from ...model.execution import ExecutionRow, State
from ...model.limits import Limit, decode_limits, encode_limits
from ...model.store.messages import Change
from ...model.time.instants import SECOND, Micros
from . import transitions

NO_LIMITS = "[]"
START_UP: Micros = 120 * SECOND
"""A process is needed this long before the next execution is due."""


def in_force(control: Control, now: Micros) -> Control:
    """The control, without its pause if the end of the pause has come."""
    if control.paused is None or control.until is None or now < control.until:
        return control
    return resumed(control)


def set_now(found: Iterable[Known], now: Micros) -> dict[tuple[Subject, str], Control]:
    """The controls that are in force at this moment, by subject and name."""
    current = {(each.subject, each.name): in_force(each.control, now) for each in found}
    return {key: control for key, control in current.items() if control.paused is not None or control.has_ceiling}


def resumed(control: Control) -> Control:
    return msgspec.structs.replace(control, paused=None, by=None, note=None, until=None)


# --- the ceiling of a queue


def with_ceiling(limits: str | None, ceiling: Sequence[Limit]) -> str | None:
    """The limits of an execution with this ceiling instead of any other; None if it then has no limits.

    >>> with_ceiling('[{"key":"crawl","concurrency":2}]', [Limit("mainspring.queue:mail", concurrency=1)])
    '[{"key":"crawl","concurrency":2},{"key":"mainspring.queue:mail","concurrency":1}]'
    """
    if limits is None:
        return encode_limits(ceiling)
    return encode_limits([*(each for each in decode_limits(limits) if not is_ceiling(each.key)), *ceiling])


def is_within(limits: str | None, ceiling: Sequence[Limit]) -> bool:
    """Whether an execution that was claimed under these limits may run under this ceiling. It may carry an older
    ceiling that is stricter."""
    if not ceiling:
        return True
    carried = {} if limits is None else {each.key: each for each in decode_limits(limits)}
    return all((own := carried.get(each.key)) is not None and _is_as_strict(own, each) for each in ceiling)


def _is_as_strict(own: Limit, wanted: Limit) -> bool:
    if wanted.concurrency is not None:
        return own.concurrency is not None and own.concurrency <= wanted.concurrency
    return own.per_second is not None and own.per_second <= (wanted.per_second or 0.0)


def ceiling_change(execution: ExecutionRow, ceiling: Sequence[Limit], now: Micros) -> Change | None:
    """The change that gives a waiting execution the ceiling of its queue; None if it already has it."""
    limits = with_ceiling(execution.limits, ceiling)
    if limits == execution.limits:
        return None
    return transitions.put_back(execution, now, limits=limits or NO_LIMITS)


# --- what one process knows


class ControlsInForce(msgspec.Struct, frozen=True, kw_only=True):
    """`held_jobs` are the ids of paused on-demand jobs, `ceilings` the limits by queue."""

    paused_queues: frozenset[str] = frozenset()
    paused_handlers: frozenset[str] = frozenset()
    drained: frozenset[str] = frozenset()
    held_jobs: frozenset[str] = frozenset()
    ceilings: Mapping[str, tuple[Limit, ...]] = {}

    def put_back(self, execution: ExecutionRow, now: Micros) -> Change | None:
        """The change that puts back a claimed execution which must not begin now; None if it may begin."""
        if execution.queue in self.paused_queues or execution.handler in self.paused_handlers:
            return transitions.put_back(execution, now)
        if execution.job_id in self.held_jobs:
            return transitions.hold(execution, now)
        ceiling = self.ceilings.get(execution.queue, ())
        if is_within(execution.limits, ceiling):
            return None
        return transitions.put_back(execution, now, limits=with_ceiling(execution.limits, ceiling) or NO_LIMITS)

    def adjusted(self, change: Change) -> Change:
        """A change back to pending, with the present ceiling of the queue: the execution began under an earlier one."""
        execution = change.execution
        if change.to is not State.PENDING or execution is None or change.limits is not None:
            return change
        limits = with_ceiling(execution.limits, self.ceilings.get(execution.queue, ()))
        return change if limits == execution.limits else msgspec.structs.replace(change, limits=limits or NO_LIMITS)


NOTHING_SET = ControlsInForce()


def controls_in_force(found: Iterable[Known], paused_jobs: frozenset[str], now: Micros) -> ControlsInForce:
    """`paused_jobs` are the ids of those paused jobs that controls name."""
    paused: dict[Subject, set[str]] = {"queue": set(), "handler": set(), "worker": set()}
    ceilings = {}
    for each in found:
        control = in_force(each.control, now)
        if control.paused is not None and each.subject != "job":
            paused[each.subject].add(each.name)
        if control.has_ceiling:
            ceilings[each.name] = ceiling_limits(each.name, control)
    return ControlsInForce(
        paused_queues=frozenset(paused["queue"]),
        paused_handlers=frozenset(paused["handler"]),
        drained=frozenset(paused["worker"]),
        held_jobs=paused_jobs,
        ceilings=ceilings,
    )


# --- how many processes


def wanted_processes(
    due: int, running: int, parked: int, slots: int, next_due: Micros | None, now: Micros, low: int, high: int
) -> int:
    """Enough processes to have a slot for each execution that is due or runs. At least one if an execution will be due
    soon, or waits for a limit: a process must be there when the limit has room again.

    >>> wanted_processes(due=25, running=5, parked=0, slots=10, next_due=None, now=0, low=0, high=100)
    3
    >>> wanted_processes(due=0, running=0, parked=0, slots=10, next_due=5_000_000, now=0, low=0, high=100)
    1
    """
    wanted = math.ceil((due + running) / max(slots, 1))
    soon = parked > 0 or (next_due is not None and next_due - now <= START_UP)
    return max(low, min(high, max(wanted, 1 if soon else 0)))
