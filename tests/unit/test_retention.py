"""Which finished executions go: by state, age and number."""

from __future__ import annotations

import pytest

from mainspring import InvalidValue, Retention, every
from mainspring.core.janitor import DAY, prune_rules
from mainspring.model.execution import State
from mainspring.model.instants import SECOND
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.triggers import encode_trigger

NOW = 10**9 * SECOND


def days(retention: Retention, *, on_demand: bool = False) -> dict[State, tuple[float, int]]:
    trigger = None if on_demand else encode_trigger(every(hours=1))
    job = Job(name="j", id="i", declared=encode_spec(JobSpec(handler="h", trigger=trigger, retention=retention)))
    rules = [rule for rule in prune_rules(job, NOW) if rule.older_than is not None]
    return {
        state: ((NOW - (rule.older_than or 0)) / SECOND / DAY, rule.newest) for rule in rules for state in rule.states
    }


@pytest.mark.req("HIS-2")
def test_the_defaults() -> None:
    month = (30.0, 100)
    kept = dict.fromkeys((State.COMPLETED, State.PARTIAL, State.FAILED, State.CANCELLED), month)
    assert days(Retention()) == kept | {State.SKIPPED: (7.0, 0)}
    assert days(Retention(), on_demand=True)[State.COMPLETED] == (7.0, 0)


@pytest.mark.req("HIS-2")
def test_a_state_may_have_its_own_days() -> None:
    chosen = days(Retention(by_state={"failed": 90, "skipped": 1}))
    assert (chosen[State.FAILED], chosen[State.SKIPPED], chosen[State.COMPLETED]) == ((90, 100), (1, 0), (30, 100))


@pytest.mark.req("HIS-2", "REG-11")
@pytest.mark.parametrize("by_state", [{"running": 3}, {"failed": -1}, {"failed": "long"}])
def test_wrong_states_and_days_are_refused(by_state: dict[str, float]) -> None:
    with pytest.raises(InvalidValue, match=r"retention\.by_state"):
        Retention(by_state=by_state)
