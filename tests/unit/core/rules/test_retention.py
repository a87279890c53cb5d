"""Which finished executions go: by state, age and number."""

from __future__ import annotations

from random import Random

import pytest

from mainspring import InvalidValue, Retention, every
from mainspring.app.parts import node_settings
from mainspring.config.load import load
from mainspring.core.engine import janitor
from mainspring.core.engine.janitor import Janitor
from mainspring.core.rules.retention import DAY, prune_rules
from mainspring.model.execution import State
from mainspring.model.job import Job, JobSpec, JobStats, encode_spec
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.model.store.messages import Audit
from mainspring.model.time.instants import SECOND
from mainspring.model.triggers import encode_trigger
from mainspring.model.values.ids import random_id
from mainspring.stores.memory import MemoryStore
from mainspring.testing import FakeClock

NOW = 10**9 * SECOND
ALL_STATES = JobStats(job_id="i", completed=1, partial=1, failed=1, cancelled=1, skipped=1)


def job_with(retention: Retention, *, on_demand: bool = False) -> Job:
    trigger = None if on_demand else encode_trigger(every(hours=1))
    return Job(name="j", id="i", declared=encode_spec(JobSpec(handler="h", trigger=trigger, retention=retention)))


def days(retention: Retention, *, on_demand: bool = False) -> dict[State, tuple[float, int]]:
    job = job_with(retention, on_demand=on_demand)
    rules = [rule for rule in prune_rules(job, ALL_STATES, NOW) if rule.older_than is not None]
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


@pytest.mark.req("HIS-2", "HIS-3")
def test_nobody_looks_for_what_never_ended() -> None:
    job = job_with(Retention(at_most=5))
    assert prune_rules(job, None, NOW) == []
    some = JobStats(job_id="i", completed=5, skipped=7)
    assert [rule.states for rule in prune_rules(job, some, NOW)] == [{State.COMPLETED}, {State.SKIPPED}]
    [*_, cap] = prune_rules(job, JobStats(job_id="i", completed=5, failed=1), NOW)
    assert (cap.older_than, cap.newest) == (None, 5)


@pytest.mark.req("HIS-2", "REG-11")
@pytest.mark.parametrize("by_state", [{"running": 3}, {"failed": -1}, {"failed": "long"}])
def test_wrong_states_and_days_are_refused(by_state: dict[str, float]) -> None:
    with pytest.raises(InvalidValue, match=r"retention\.by_state"):
        Retention(by_state=by_state)


@pytest.mark.req("SEC-3", "HIS-2")
async def test_audit_records_go_after_their_time_a_batch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(janitor, "PRUNE_BATCH", 2)
    clock, chance = FakeClock(), Random(1)
    store = MemoryStore(clock)

    async def note(times: int) -> None:
        for _ in range(times):
            audit = Audit(id=random_id(clock.now(), chance), at=clock.now(), actor="ada", action="set", target="x")
            entry = Entry(kind="calendar", key="x")
            await store.write_entries([EntryWrite(entry=entry, audit=audit)])

    await note(5)
    clock.advance(399 * DAY)
    await note(3)
    kept_for_ever = Janitor(store, clock, chance, print)
    sweeping = Janitor(store, clock, chance, print, audit_retention=400 * DAY)
    await sweeping.retain_once()
    clock.advance(2 * DAY)
    await kept_for_ever.retain_once()
    assert len(await store.audits()) == 8
    await sweeping.retain_once()
    assert [audit.at for audit in await store.audits()] == [clock.now() - round(2 * DAY * SECOND)] * 3


def test_the_setting_reaches_the_janitor() -> None:
    assert node_settings(load({"audit_retention": "30d"}, {}, "/dev/null"), "app").audit_retention == 30 * DAY
