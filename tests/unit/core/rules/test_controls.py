"""Rules about pauses, ceilings and how many processes a queue wants."""

from __future__ import annotations

import pytest

from mainspring.core.rules import transitions
from mainspring.core.rules.controls import (
    ControlsInForce,
    ceiling_change,
    controls_in_force,
    in_force,
    is_within,
    wanted_processes,
    with_ceiling,
)
from mainspring.model.controls import Control, Known, ceiling_limits
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.limits import Limit, encode_limits

NOW = 1_800_000_000_000_000
CEILING = ceiling_limits("mail", Control(concurrency=2, rate=5.0))
OWN = (Limit("crawl", concurrency=3),)


def row(**fields: object) -> ExecutionRow:
    known = {"id": "e", "job": "j", "job_id": "i", "handler": "send", "queue": "mail", "due": NOW - 5, "token": 7}
    return ExecutionRow(**(known | fields))  # type: ignore[arg-type]


def running(**fields: object) -> ExecutionRow:
    return row(state=State.RUNNING, owner="w", failures=1, error="boom", **fields)


@pytest.mark.req("QUE-1")
def test_a_pause_ends_when_its_end_has_come() -> None:
    paused = Control(paused=NOW, until=NOW + 10, by="ada", note="x", concurrency=2)
    assert in_force(paused, NOW + 9) is paused
    assert in_force(paused, NOW + 10) == Control(concurrency=2)
    known = [Known("queue", "mail", paused, 1), Known("handler", "send", Control(paused=NOW), 1)]
    found = controls_in_force([*known, Known("worker", "w", Control(paused=NOW), 1)], frozenset({"i"}), NOW + 10)
    assert (found.paused_queues, found.paused_handlers, found.drained) == (frozenset(), {"send"}, {"w"})
    assert list(found.ceilings) == ["mail"]


@pytest.mark.req("QUE-1")
def test_what_was_claimed_goes_back_to_its_place() -> None:
    for controls in (
        ControlsInForce(paused_queues=frozenset({"mail"})),
        ControlsInForce(paused_handlers=frozenset({"send"})),
    ):
        change = controls.put_back(running(), NOW)
        assert change is not None
        assert (change.expect, change.owner, change.token, change.to) == (State.RUNNING, "w", 7, State.PENDING)
        assert (change.failures, change.error, change.attempt, change.limits) == (1, "boom", None, None)
        assert round(NOW + change.delay * 1_000_000) == NOW - 5
        assert controls.put_back(running(queue="other", handler="other"), NOW) is None


@pytest.mark.req("QUE-1")
def test_an_execution_of_a_paused_job_is_held_and_released_when_it_was_due() -> None:
    change = ControlsInForce(held_jobs=frozenset({"i"})).put_back(running(), NOW)
    assert change is not None
    held = row(due=NOW + round(change.delay * 1_000_000), reason=change.reason)
    assert held.held
    assert held.start_at == row().start_at
    back = transitions.release(held, NOW + 100)
    assert (back.expect, back.owner, back.reason) == (State.PENDING, None, None)
    assert NOW + 100 + round(back.delay * 1_000_000) == NOW - 5
    assert not row(due=held.due).held, "an execution that is planned so far ahead is not held"


@pytest.mark.req("QUE-2")
def test_the_ceiling_of_a_queue_is_carried_beside_the_limits_of_the_job() -> None:
    both = with_ceiling(encode_limits(OWN), CEILING)
    assert both == encode_limits([*OWN, *CEILING])
    assert with_ceiling(both, ()) == encode_limits(OWN)
    assert with_ceiling(encode_limits(CEILING), ()) is None
    assert is_within(both, CEILING)
    assert is_within(None, ())
    assert not is_within(encode_limits(OWN), CEILING)
    assert is_within(both, ceiling_limits("mail", Control(concurrency=3))), "stricter numbers do no harm"
    assert not is_within(both, ceiling_limits("mail", Control(concurrency=1)))
    assert not is_within(both, ceiling_limits("mail", Control(rate=4.0)))


@pytest.mark.req("QUE-2")
def test_executions_get_the_ceiling_when_they_are_claimed_and_when_they_wait_again() -> None:
    controls = ControlsInForce(ceilings={"mail": CEILING})
    change = controls.put_back(running(), NOW)
    assert change is not None
    assert change.limits == encode_limits(CEILING)
    assert controls.put_back(running(limits=encode_limits(CEILING)), NOW) is None
    old = running(limits=encode_limits(ceiling_limits("mail", Control(concurrency=1))))
    again = transitions.put_back(old, NOW)
    assert controls.adjusted(again).limits == encode_limits(CEILING)
    assert ControlsInForce().adjusted(again).limits == "[]"
    assert ControlsInForce().adjusted(transitions.put_back(running(), NOW)).limits is None
    assert ceiling_change(row(limits=encode_limits(CEILING)), CEILING, NOW) is None
    taken = ceiling_change(row(limits=encode_limits(CEILING)), (), NOW)
    assert taken is not None
    assert taken.limits == "[]"


@pytest.mark.req("QUE-3")
@pytest.mark.parametrize(
    ("due", "running", "parked", "next_due", "low", "high", "wanted"),
    [
        (0, 0, 0, None, 0, 9, 0),
        (0, 0, 0, NOW + 10_000_000, 0, 9, 1),
        (0, 0, 0, NOW + 600_000_000, 0, 9, 0),
        (0, 1, 0, None, 0, 9, 1),
        (21, 0, 0, None, 0, 9, 3),
        (5_000, 0, 0, None, 0, 9, 9),
        (0, 0, 0, None, 2, 9, 2),
        (0, 0, 700, None, 0, 9, 1),
    ],
)
def test_wanted_processes(
    due: int, running: int, parked: int, next_due: int | None, low: int, high: int, wanted: int
) -> None:
    assert wanted_processes(due, running, parked, 10, next_due, NOW, low, high) == wanted
