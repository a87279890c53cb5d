"""The filter language: what is read, what is refused, and that a store finds what a plain predicate finds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.deploys.records import ProcessRecord, process_write
from mainspring.core.filters import executions, jobs
from mainspring.core.filters.arguments import FiltersBesideJob, JobFilters
from mainspring.core.filters.executions import ExecutionFilter, bulk_execution_filter, execution_filter, is_wanted
from mainspring.core.filters.jobs import JobFilter, bulk_job_filter, job_filter, job_query
from mainspring.core.queries import execution_lists
from mainspring.core.queries.execution_lists import ExecutionLists
from mainspring.model.errors import InvalidValue
from mainspring.model.execution import AttemptRecord, ExecutionRow, State
from mainspring.model.store.messages import JobQuery
from mainspring.model.time.instants import SECOND, Micros
from mainspring.model.values.ids import random_id
from mainspring.stores.memory.store import MemoryStore

NOW: Micros = 1_800_000_000 * SECOND
LABELS, OWN = ["order_id=1", "order_id=2", "!g1"], ["!own", "!own2", "!own3"]
"""Of users' jobs, and of Mainspring's own, which share none with them."""


class FixedClock:
    def now(self) -> Micros:
        return NOW

    def monotonic(self) -> float:
        return 0.0


def rows() -> list[ExecutionRow]:
    """Executions that differ in every field that a filter looks at."""
    chance, found = Random(7), []
    for number in range(120):
        state = chance.choice(list(State))
        created = NOW - chance.randrange(4 * 3600) * SECOND
        running = state is State.RUNNING
        started = None if state is State.PENDING else created + SECOND
        attempt = AttemptRecord(1, f"w{number % 3}", created, created, "failed")
        found.append(
            ExecutionRow(
                id=random_id(created, chance),
                job=(job := chance.choice(["load", "sync", "mainspring.webhooks"])),
                job_id="j",
                handler=chance.choice(["load", "sync"]),
                queue=chance.choice(["default", "slow"]),
                state=state,
                trigger=chance.choice(["schedule", "enqueue"]),
                trace_id=chance.choice(["t1", "t2"]),
                tenant=chance.choice([None, "acme", "umbrella"]),
                parent_id=chance.choice([None, "p1"]),
                reason=chance.choice([None, "timeout"]),
                error=chance.choice([None, "Connection REFUSED", "ValueError: 3"]),
                labels=tuple(chance.sample(OWN if job == "mainspring.webhooks" else LABELS, chance.randrange(3))),
                owner=f"w{number % 2}" if running else None,
                lease=NOW if running else None,
                token=1 if running else 0,
                started=started,
                finished=created + chance.randrange(1, 100) * SECOND if state.final else None,
                attempts_json="[]" if started is None else msgspec.json.encode([attempt]).decode(),
                created=created,
                due=created,
            )
        )
    return found


ROWS = rows()
GIVEN = st.fixed_dictionaries(
    {},
    optional={
        "job": st.sampled_from(["load", "mainspring.webhooks", "gone"]),
        "handler": st.sampled_from(["load", "sync"]),
        "queue": st.sampled_from(["default", "slow"]),
        "status": st.lists(st.sampled_from([state.value for state in State]), min_size=1),
        "running": st.booleans(),
        "reason": st.just("timeout"),
        "error_group": st.sampled_from(["g1", "g2", "own"]),
        "error": st.sampled_from(["refused", "VALUE"]),
        "tenant": st.just("acme"),
        "worker": st.sampled_from(["w0", "w2"]),
        "release": st.sampled_from(["r1", "r2"]),
        "trigger": st.just("enqueue"),
        "search": st.lists(st.sampled_from(["order_id=1", "order_id=2"]), min_size=1),
        "longer_than": st.sampled_from(["30s", 3600]),
        "since": st.sampled_from(["1h", timedelta(hours=3)]),
        "until": st.just("30m"),
        "trace_id": st.just("t1"),
        "parent_id": st.just("p1"),
    },
)


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    made = MemoryStore(FixedClock())

    async def fill() -> None:
        await made.open()
        await made.add(ROWS)
        releases = {"w0": "r1", "w1": "r2", "w2": "r1"}
        records = [
            ProcessRecord(id=id, host="h", pid=1, version="1", started=NOW, release=name)
            for id, name in releases.items()
        ]
        await made.write_entries([process_write(record) for record in records])

    asyncio.run(fill())
    return made


@pytest.mark.req("SRC-3")
@given(filters=GIVEN, system=st.booleans(), oldest_first=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_store_finds_what_the_predicate_finds(
    store: MemoryStore, filters: dict[str, Any], system: bool, oldest_first: bool
) -> None:
    lists = ExecutionLists(store)

    async def walked() -> None:
        wanted = await lists.filter(filters, system=system)
        query = await lists.query(wanted)
        expected = [row.id for row in ROWS if query is not None and is_wanted(row, query, NOW)]
        found, cursor = [], None
        while True:
            page = await lists.page(wanted, limit=17, cursor=cursor, oldest_first=oldest_first)
            assert await lists.total(wanted, page, cursor=cursor) == len(expected)
            found += [row.id for row in page.rows]
            if (cursor := page.next) is None:
                break
        assert found == sorted(expected, reverse=not oldest_first)

    asyncio.run(walked())


@pytest.mark.req("SRC-3")
def test_a_page_that_used_its_budget_up_says_so(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_lists, "BUDGET", 20)

    async def cut() -> None:
        lists = ExecutionLists(store)
        wanted = await lists.filter({"error": "nothing like it"})
        page = await lists.page(wanted, limit=5)
        assert (page.rows, page.complete, await lists.total(wanted, page)) == ([], False, None)
        assert page.next is not None
        assert page.searched_until == datetime.fromtimestamp(int(page.next.replace("-", "")[:12], 16) / 1000, UTC)

    asyncio.run(cut())


@pytest.mark.req("SRC-3")
def test_a_total_is_exact_or_unknown(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two filters with an index each have none together: counting looks at no more executions than the budget."""

    async def total(**given: Any) -> Any:
        lists = ExecutionLists(store)
        wanted = await lists.filter(given)
        return await lists.total(wanted, await lists.page(wanted, limit=1))

    async def totals() -> None:
        for wanted in ({"tenant": "acme", "status": "failed"}, {"job": "load", "tenant": "acme"}, {"queue": "slow"}):
            monkeypatch.setattr(execution_lists, "BUDGET", 1_000)
            query = await ExecutionLists(store).query(await ExecutionLists(store).filter(wanted))
            assert query is not None
            assert await total(**wanted) == sum(is_wanted(row, query, NOW) for row in ROWS)
            monkeypatch.setattr(execution_lists, "BUDGET", 10)
            assert await total(**wanted) is None
        assert await total(status="failed") == sum(row.state == "failed" and row.job[:4] != "main" for row in ROWS)

    asyncio.run(totals())


@pytest.mark.req("SRC-3")
@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"jub": "x"}, "filter: 'jub' is not valid; allowed: job, handler, queue"),
        ({"jub": "x"}, "Did you mean 'job'?"),
        ({"status": "faild"}, "Did you mean 'failed'?"),
        ({"status": []}, "status: [] is not valid; allowed: one or several of pending"),
        (
            {"search": "order_id"},
            "search: 'order_id' is not valid; allowed: a name and a value, such as 'order_id=4711'",
        ),
        ({"longer_than": "soon"}, "longer_than: 'soon' is not valid; allowed: seconds"),
        ({"since": "soon"}, "since: 'soon' is not valid"),
        ({"since": "soon"}, "or text such as '2h', for two hours ago"),
        ({"since": "1h", "until": "2h"}, "until: '2h' is not valid; allowed: a time after since"),
        ({"running": "perhaps"}, "running: 'perhaps' is not valid; allowed: True or False"),
        ({"trigger": "cron"}, "trigger: 'cron' is not valid"),
        ({"job": "a b"}, "job: 'a b' is not valid"),
        ({"tenant": ""}, "tenant: '' is not valid"),
    ],
)
def test_bad_values_name_field_value_and_remedy(filters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        execution_filter(filters, NOW)
    assert message in str(raised.value)


@pytest.mark.req("SRC-3")
def test_an_unknown_release_is_refused_with_those_that_ran(store: MemoryStore) -> None:
    async def ask() -> None:
        lists = ExecutionLists(store)
        await lists.query(await lists.filter({"release": "r3"}))

    with pytest.raises(InvalidValue, match=r"release: 'r3' is not valid; allowed: a release that has run here: r1, r2"):
        asyncio.run(ask())


@pytest.mark.req("SRC-3")
def test_instants_are_times_or_durations_before_now() -> None:
    found = execution_filter({"since": "2h", "until": "2027-01-15T07:59:00Z"}, NOW)
    assert (found.since, found.until) == (NOW - 7200 * SECOND, NOW - 60 * SECOND)


@pytest.mark.req("SRC-3")
def test_jobs_are_found_by_labels_parts_and_lateness() -> None:
    given = {"owner": "web", "tag": ["a", "b"], "metadata": "site=news", "name": "Load", "overdue": True}
    query = job_query(job_filter(given), JobQuery(), NOW)
    assert query == JobQuery(
        labels=("owner=web", "tag=a", "tag=b", "meta.site=news"),
        name_part="load",
        due_before=NOW - 60 * SECOND,
        without_system=True,
    )
    with pytest.raises(InvalidValue, match="overdue: False is not valid; allowed: True"):
        job_filter({"overdue": False})


@pytest.mark.req("SRC-3")
def test_arguments_and_stored_filters_have_the_fields_of_the_tables() -> None:
    assert {*FiltersBesideJob.__annotations__, "job"} == {*executions.FIELDS}
    assert {*JobFilters.__annotations__} == {*jobs.FIELDS}
    assert {*ExecutionFilter.__struct_fields__} == {*executions.FIELDS, "system"}
    assert {*JobFilter.__struct_fields__} == {*jobs.FIELDS, "system"}


@pytest.mark.req("SRC-3")
def test_nobody_steers_everything_by_leaving_filters_out() -> None:
    with pytest.raises(InvalidValue, match="Name the items, or give at least one filter"):
        bulk_execution_filter({"job": None}, NOW)
    with pytest.raises(InvalidValue, match="Name the items, or give at least one filter"):
        bulk_job_filter({})
