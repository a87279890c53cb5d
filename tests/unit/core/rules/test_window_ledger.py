"""The rules of the window ledger: what an ending says about its window."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.engine.follow_ups import enter_windows
from mainspring.core.rules import transitions, window_ledger
from mainspring.core.rules.window_ledger import LedgerEntry
from mainspring.model.execution import ExecutionRow, Outcome, State
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock

DAY = (1_000_000, 2_000_000)
ENDINGS = [State.COMPLETED, State.PARTIAL, State.FAILED, State.CANCELLED]


def ended(state: State, id: str = "e1", finished: int = 10, **fields: object) -> ExecutionRow:
    return ExecutionRow(
        id=id,
        job="report",
        job_id="j",
        handler="h",
        state=state,
        finished=finished,
        **{"window_begin": DAY[0], "window_end": DAY[1], **fields},
    )


def after(*executions: ExecutionRow) -> LedgerEntry | None:
    entry = None
    for execution in executions:
        entry = window_ledger.entered(entry, execution) or entry
    return entry


@pytest.mark.req("WIN-6")
@pytest.mark.parametrize(
    ("state", "entered"),
    [
        (State.COMPLETED, "done"),
        (State.PARTIAL, "failed"),
        (State.FAILED, "failed"),
        (State.CANCELLED, "cancelled"),
    ],
)
def test_the_first_ending(state: State, entered: str) -> None:
    entry = after(ended(state))
    assert entry is not None
    assert (entry.state, entry.last_state, entry.execution_id, entry.finished, entry.runs) == (
        entered,
        state,
        "e1",
        10,
        1,
    )


@pytest.mark.req("WIN-6")
def test_a_window_that_ever_completed_is_done_and_the_last_failure_is_remembered() -> None:
    entry = after(ended(State.COMPLETED), ended(State.FAILED, "e2", 20))
    assert entry is not None
    assert (entry.state, entry.last_state, entry.execution_id, entry.runs) == ("done", State.FAILED, "e2", 2)


@pytest.mark.req("WIN-6")
@given(st.lists(st.tuples(st.sampled_from(ENDINGS), st.integers(0, 9)), min_size=1, max_size=15), st.randoms())
def test_neither_the_order_of_follow_ups_nor_their_repetition_matters(runs: list, chance: random.Random) -> None:
    executions = [ended(state, f"e{number}", finished) for number, (state, finished) in enumerate(runs)]
    shuffled = executions + chance.sample(executions, chance.randint(0, len(executions)))
    chance.shuffle(shuffled)
    straight, mixed = after(*executions), after(*shuffled)
    assert straight is not None
    assert mixed is not None
    assert (straight.state, straight.runs, straight.finished) == (mixed.state, mixed.runs, mixed.finished)
    assert straight.runs == len(executions)
    assert sorted(straight.ids) == sorted(mixed.ids)


def test_what_says_nothing_about_a_window() -> None:
    assert window_ledger.is_entered(ended(State.FAILED))
    assert not window_ledger.is_entered(ended(State.SKIPPED))
    assert not window_ledger.is_entered(ended(State.COMPLETED, window_begin=None, window_end=None))
    assert not window_ledger.is_entered(ended(State.COMPLETED, window_end=DAY[0]))  # empty
    assert not window_ledger.is_entered(ended(State.COMPLETED, tenant="acme"))


@given(st.integers(0, 10**15), st.integers(1, 10**15))
def test_keys_are_read_back_and_lie_in_the_order_of_the_windows(begin: int, span: int) -> None:
    key = window_ledger.key_of((begin, begin + span))
    assert window_ledger.window_from(key) == (begin, begin + span)
    assert f"{begin:017d}" < key < f"{begin + 1:017d}"


def test_only_executions_with_a_window_a_parent_or_a_fixed_delay_need_follow_ups() -> None:
    outcome = Outcome(end="completed", started=1, ended=2, worker="w")
    running = ended(State.RUNNING, window_begin=None, window_end=None)
    assert not transitions.after_attempt(running, outcome).todo
    assert transitions.after_attempt(ended(State.RUNNING), outcome).todo


class Racing(MemoryStore):
    """Somebody else enters an ending between the look and the write."""

    rival: ExecutionRow | None = None
    calls = 0

    async def write_entries(self, writes: list[EntryWrite]) -> list[bool]:
        self.calls += 1
        rival, self.rival = self.rival, None
        if rival is not None:
            await enter_windows(self, [rival], unheard)
        return await super().write_entries(writes)


def unheard(event: object) -> None: ...


@pytest.mark.req("WIN-6")
async def test_who_loses_a_race_looks_again() -> None:
    store = Racing(FakeClock())
    store.rival = ended(State.COMPLETED, "e2", 20)
    await enter_windows(store, [ended(State.FAILED)], unheard)
    (entry,) = await store.list_entries("window", "report")
    known = window_ledger.decode_entry(entry.body)
    assert (known.state, known.last_state, known.runs, known.ids) == ("done", State.COMPLETED, 2, ("e2", "e1"))


@pytest.mark.req("WIN-6")
async def test_a_batch_is_one_look_and_one_write_a_job() -> None:
    store = Racing(FakeClock())
    runs = [ended(State.COMPLETED, f"e{n}", window_begin=n, window_end=n + 1) for n in range(50)]
    await enter_windows(store, [*runs, *(ended(State.FAILED, f"f{n}") for n in range(50))], unheard)
    assert store.calls == 1
    assert len(await store.list_entries("window", "report")) == 51
    await enter_windows(store, runs, unheard)
    assert store.calls == 1, "what is entered already is not written again"


async def test_an_entry_that_cannot_be_read_holds_up_no_other() -> None:
    store, told = MemoryStore(FakeClock()), []
    strange = Entry(kind="window", scope="report", key=window_ledger.key_of(DAY), body='{"state": "from the future"}')
    await store.write_entries([EntryWrite(entry=strange)])
    other = ended(State.COMPLETED, "e2", window_begin=5, window_end=6)
    await enter_windows(store, [ended(State.COMPLETED), other], told.append)
    first, second = await store.list_entries("window", "report")
    assert (window_ledger.decode_entry(first.body).state, second.body) == ("done", strange.body)
    assert len(told) == 1
