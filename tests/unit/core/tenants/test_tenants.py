"""Tenants as declared, the executions made for them, and what their endings come to: pure rules."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import InvalidValue, Limit, Mainspring, Retry, State
from mainspring.core.declaring.job_specs import edited_fields
from mainspring.core.declaring.tenant_options import MAX_TENANTS, context_wanted, tenant_names
from mainspring.core.rules import new_execution, transitions
from mainspring.core.rules.retention import sparing_tenants
from mainspring.core.rules.window_ledger import is_entered
from mainspring.core.tenants.endings import settle_parent
from mainspring.core.tenants.fan_out import Tenants
from mainspring.model.events import AttemptEnded
from mainspring.model.execution import FINAL, ExecutionRow, Outcome, encode_policy
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.limits import decode_limits
from mainspring.model.store.messages import ClaimRequest, PruneRule
from mainspring.model.values.ids import random_id, tenant_id
from mainspring.stores.memory import MemoryStore
from mainspring.testing import FakeClock

NAMES = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=30)


def spec_of(**options: Any) -> JobSpec:
    app = Mainspring("memory://")
    app.job("nightly", **options)(lambda: None)
    [(_, spec)] = app._runtime.registry.declared_jobs()
    return spec


def job_of(**options: Any) -> Job:
    return Job(name="nightly", id="job-1", declared=encode_spec(spec_of(**options)))


def parent_of(job: Job, **options: Any) -> ExecutionRow:
    fields: dict[str, Any] = {"trigger": "schedule", "now": 1_000_000, "chance": Random(1)} | options
    return new_execution.new_execution(job, **fields)


@pytest.mark.req("TEN-3", "EXE-4")
def test_the_tries_of_a_tenant() -> None:
    spec = spec_of(tenants=["a"])
    assert (spec.tenant_max_attempts, spec.tenant_retry) == (3, Retry("tenant"))
    assert [spec.tenant_retry.delay(failures) for failures in range(1, 6)] == [5, 10, 20, 40, 60]
    own = spec_of(tenants=["a"], max_attempts=7, retry="patient")
    assert (own.tenant_max_attempts, own.tenant_retry) == (7, Retry("patient"))
    both = spec_of(tenants=["a"], max_attempts=7, tenant_max_attempts=2, tenant_retry=Retry("1s"))
    assert (both.max_attempts, both.tenant_max_attempts, both.tenant_retry) == (7, 2, Retry("1s"))
    assert "tenant" not in encode_spec(spec_of())
    assert "fan_out" not in encode_policy(spec_of().run_policy())


@pytest.mark.req("TEN-1")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tenants": "acme"}, "Write tenants=['acme']"),
        ({"tenants": 5}, "a list of names"),
        ({"tenants": ["a", "a"]}, "named twice"),
        ({"tenants": [""]}, "1 to 200"),
        ({"tenants": [" a"]}, "without blanks around it"),
        ({"tenants": lambda a, b: []}, "one parameter at most"),
        ({"tenants": ["a"], "tenant_concurrency": 0}, "tenant_concurrency"),
        ({"tenants": ["a"], "tenant_max_attempts": 0}, "tenant_max_attempts"),
        ({"tenants": ["a"], "tenant_retry": "soon"}, "tenant_retry"),
        ({"tenants": ["a"], "continue_on_failure": "no"}, "continue_on_failure"),
        ({"tenants": ["a"], "tenant_context": "schema"}, "tenant_context"),
        ({"tenants": ["a"], "tenant_context": lambda tenant, schema: None}, "Give it one parameter"),
        ({"tenants": ["a"], "tenant_context": lambda: None}, "Give it one parameter"),
        ({"tenant_concurrency": 3}, "nothing without tenants="),
        ({"continue_on_failure": False}, "nothing without tenants="),
    ],
)
def test_what_is_wrong_is_refused_at_registration(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        spec_of(**options)
    assert words in str(refused.value)


def test_operators_change_the_rules_and_not_who_the_tenants_are() -> None:
    spec = spec_of(tenants=["a"])
    assert edited_fields(spec, None, {"tenant_concurrency": 4}) == {"tenant_concurrency": 4}
    assert edited_fields(spec, None, {"continue_on_failure": False}) == {"continue_on_failure": False}
    for field in ("tenants", "tenant_context"):
        with pytest.raises(InvalidValue, match=field):
            edited_fields(spec, None, {field: ["b"]})
    with pytest.raises(InvalidValue, match="without tenants"):
        edited_fields(spec_of(), None, {"tenant_concurrency": 4})


def test_which_functions_take_the_context() -> None:
    assert context_wanted(lambda: []) is False
    assert context_wanted(lambda ctx: []) is True
    assert context_wanted(lambda ctx=None: []) is False
    assert context_wanted(lambda *all: []) is False
    assert context_wanted(lambda *, must: []) is None


@given(st.lists(NAMES, unique=True, max_size=30))
def test_names_keep_their_order_and_are_unique(names: list[str]) -> None:
    assert tenant_names(iter(names)) == names
    for name in names[:1]:
        with pytest.raises(InvalidValue, match="twice"):
            tenant_names([*names, name])


@given(st.integers(0, 2**44), st.lists(NAMES, unique=True, max_size=9), st.integers(0, MAX_TENANTS), st.integers())
def test_ids_of_tenants_are_in_the_order_of_the_list_right_before_their_parent(
    at: int, names: list[str], first: int, seed: int
) -> None:
    parent = random_id(at * 1000 + 1000, Random(seed))
    ids = [tenant_id(parent, name, position) for position, name in enumerate(names, first)]
    assert ids == sorted(set(ids), key=lambda id: UUID(id).int)
    assert len(ids) == len(names)
    assert ids == [tenant_id(parent, name, position) for position, name in enumerate(names, first)]
    assert all(id < parent and UUID(id).version == 8 for id in ids)


@pytest.mark.req("TEN-1", "TEN-3", "WIN-1")
def test_an_execution_of_a_tenant() -> None:
    limits = [Limit("crawl:{tenant}", concurrency=3)]
    job = job_of(
        tenants=["a"], cron="@daily", limits=limits, weights={"a": 4}, tenant_concurrency=2, continue_on_failure=False
    )
    parent = parent_of(job, tick=5, window=(1, 2), traceparent=f"00-{'a' * 32}-{'b' * 16}-01", flow="f")
    assert (parent.fans_out, parent.limits, parent.overlap_key) == (True, None, "job-1")
    child = Tenants(parent, job).child(0, "a", 9)
    assert child.rules == msgspec.structs.replace(
        parent.rules, fan_out=None, fail_fast=True, max_attempts=3, retry=Retry("tenant"), overlap="allow"
    )
    same = ("job", "job_id", "handler", "queue", "trigger", "params", "tick", "window_begin", "window_end", "flow")
    assert [getattr(child, name) for name in same] == [getattr(parent, name) for name in same]
    assert (child.trace_id, child.traceparent) == (parent.trace_id, parent.traceparent)
    assert (child.parent_id, child.tenant, child.share, child.weight) == (parent.id, "a", "a", 4)
    assert child.overlap_key is child.running_overlap_key is child.unique_key is None
    assert [(limit.key, limit.concurrency) for limit in decode_limits(child.limits or "[]")] == [
        ("crawl:a", 3),
        (f"fan-out:{parent.id}", 2),
    ]
    assert not child.fans_out
    assert not is_entered(child), "the ending of a window is that of the parent"
    over = Tenants(parent, None).never_started(0, "a", "why", 9)
    assert (over.id, over.state, over.reason, over.finished) == (child.id, State.CANCELLED, "why", 9)


def test_a_tenant_of_a_window_is_no_child_of_the_backfill() -> None:
    job = job_of(tenants=["a"])
    parent = parent_of(job, trigger="backfill", parent_id="backfill-1")
    assert parent.from_backfill
    assert not Tenants(parent, job).child(0, "a", 9).from_backfill


@pytest.mark.req("EXE-2")
@pytest.mark.parametrize("unique", [None, "key"])
def test_a_retry_of_one_tenant_holds_no_key_of_its_job(unique: str | None) -> None:
    job = job_of(tenants=["a"], cron="@daily", overlap="queue")
    made = parent_of(job, trigger="retry", tenant="a", unique=unique)
    assert (made.fans_out, made.rules.max_attempts, made.share) == (False, 3, "a")
    assert (made.overlap_key, made.running_overlap_key, made.staged, made.unique_key) == (None, None, False, unique)
    assert parent_of(job_of(), tenant="a").rules.max_attempts == 10, "a job without tenants= has its own rules"
    single = parent_of(job, tenant="a", policy=new_execution.single_try(job))
    assert single.rules.max_attempts == 1


PARENT = parent_of(job_of(tenants=["a"]))
COUNTS = st.dictionaries(st.sampled_from(sorted(FINAL)), st.integers(1, 1_000), min_size=1)


@pytest.mark.req("TEN-4")
@given(COUNTS, st.dictionaries(st.sampled_from(["total", "seen"]), st.integers(0, 9)))
def test_the_counts_of_a_parent_add_up(children: dict[State, int], counted: dict[str, int]) -> None:
    text = msgspec.json.encode(counted).decode()
    parent = msgspec.structs.replace(PARENT, state=State.WAITING, counters_json=text)
    change = transitions.after_children(parent, children, 9)
    assert change is not None
    assert change.todo
    counters, result = (msgspec.json.decode(each or "") for each in (change.counters_json, change.result_json))
    skipped = result.get("skipped", 0)
    assert result["total"] == result["success"] + result["failed"] + skipped == sum(children.values())
    assert skipped == children.get(State.SKIPPED, 0)
    assert result["success"] == children.get(State.COMPLETED, 0)
    assert result.get("cancelled", 0) == children.get(State.CANCELLED, 0)
    assert counters == counted | result
    unfailed = State.SKIPPED if skipped and not result["success"] else State.COMPLETED
    expected = unfailed if not result["failed"] else State.PARTIAL if result["success"] else State.FAILED
    assert change.to is expected
    assert transitions.after_children(parent, {**children, State.PENDING: 1}, 9) is None


@pytest.mark.req("TEN-2")
@pytest.mark.parametrize("asked", [None, 5])
def test_a_parent_waits_unless_it_was_asked_to_stop(asked: int | None) -> None:
    parent = msgspec.structs.replace(
        parent_of(job_of(tenants=["a"])), state=State.RUNNING, cancel_requested=asked, cancel_reason="why"
    )
    change = transitions.after_attempt(parent, Outcome(end="fanned_out", started=1, ended=2, worker="w"))
    expected = (State.WAITING, False, None) if asked is None else (State.CANCELLED, True, "why")
    assert (change.to, change.todo, change.reason) == expected


@pytest.mark.req("HIS-2")
def test_retention_spares_what_a_living_parent_will_count() -> None:
    hour = 3_600_000_000
    rule = PruneRule(job_id="j", states=frozenset({State.COMPLETED}), older_than=None, newest=5)
    assert sparing_tenants(rule, None) is rule
    assert sparing_tenants(rule, 10 * hour).older_than == 9 * hour
    old = msgspec.structs.replace(rule, older_than=3 * hour)
    assert sparing_tenants(old, 10 * hour).older_than == 3 * hour


@pytest.mark.req("TEN-4")
async def test_a_parent_ends_no_earlier_than_its_last_tenant_whatever_the_clocks_say() -> None:
    """The last tenant ran on a machine whose clock is an hour ahead of the one that settles the parent."""
    store, seen = MemoryStore(FakeClock()), list[Any]()
    now = await store.now()
    parent = parent_of(job_of(tenants=["a"]))
    tenant = ExecutionRow(id="t", job="nightly", job_id="job-1", handler="nightly", parent_id=parent.id, tenant="a")
    await store.add([msgspec.structs.replace(parent, state=State.WAITING, started=now), tenant])
    request = ClaimRequest(owner="w", handlers=frozenset({"nightly"}), queues=None, limit=1, lease=30.0)
    [running] = (await store.exchange([], request)).claimed
    outcome = Outcome(end="completed", started=now, ended=now + 3_600_000_000, worker="w")
    await store.exchange([transitions.after_attempt(running, outcome)], None)
    assert await settle_parent(store, parent.id, now, seen.append)
    ended = await store.execution(parent.id)
    assert ended is not None
    assert (ended.state, ended.finished) == (State.COMPLETED, now + 3_600_000_000)
    [event] = seen
    assert isinstance(event, AttemptEnded)
    assert event.duration_ms == 3_600_000
