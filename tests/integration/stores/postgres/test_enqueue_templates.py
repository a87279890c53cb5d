"""One request, three ways in: `app.enqueue`, the caller's own transaction, and SQL. All of them make the same row."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict
from psycopg.rows import dict_row

from mainspring import Mainspring, Unique
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.limits import Limit
from mainspring.model.policies import Retention, Retry
from mainspring.model.store.messages import JobWrite
from mainspring.stores.postgres import PostgresStore
from tests.servers import postgres
from tests.support import NEVER

EMPTY = ";".join(f"DELETE FROM mainspring.{table}" for table in ("live", "history", "limit_state", "label"))
OWN = {"id", "created", "due", "trace_id"}  # of each row, however it is made
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

names = st.text("ab1_", min_size=1, max_size=5)
texts = st.text('aé"\\{}/ß\u200b', min_size=1, max_size=8) | st.just("{job}") | st.just("x" * 250)
values = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts | st.lists(st.integers(-9, 9), max_size=2)
params = st.dictionaries(st.sampled_from(["a", "b", "c"]), values, max_size=3)
tenants = st.sampled_from(["acme", "b b", 'q"u', "{job}"])
keys = st.sampled_from(["k", "crawl:{tenant}", "{job}/{queue}", "{params.a}-{params.b}", "{params.c}{tenant}"])
limits = st.lists(
    st.builds(Limit, keys, concurrency=st.integers(1, 9)) | st.builds(Limit, keys, rate=st.floats(0.5, 90.0)),
    max_size=3,
    unique_by=lambda limit: limit.key,
)
overlaps = st.sampled_from(["allow", "skip", "queue", "cancel_running"]).map(lambda name: {"overlap": name})
overlaps |= st.integers(1, 3).map(lambda most: {"overlap": "allow", "overlap_limit": most})


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    return JobSpec(
        handler=draw(names),
        queue=draw(names),
        priority=draw(st.integers(-5, 5)),
        params=draw(params),
        search=draw(st.sampled_from([(), ("a",), ("c", "a", "b.x")])),
        max_attempts=draw(st.integers(1, 5)),
        retry=draw(st.sampled_from([Retry("queue"), Retry("tenant")])),
        timeout=draw(st.none() | st.just(5.0)),
        limits=tuple(draw(limits)),
        weights=draw(st.dictionaries(tenants | st.just("*"), st.integers(1, 9), max_size=2)),
        tenants=draw(st.booleans()),
        tenant_concurrency=draw(st.none() | st.just(2)),
        continue_on_failure=draw(st.booleans()),
        ping=draw(st.none() | st.just({"success": "https://hc.example/a", "start": "https://hc.example/b"})),
        window=draw(st.none() | st.just("day")),
        retention=draw(st.sampled_from([Retention(), Retention(keep_success=False)])),
        feeds=draw(st.booleans()),
        **draw(overlaps),
    )


stages = st.builds(Unique, enqueued=st.none() | st.just("u"), running=st.none() | st.sampled_from(["u", "r"]))
requests = st.fixed_dictionaries(
    {},
    optional={
        "params": params,
        "unique": st.just("u") | stages,
        "tenant": tenants,
        "share": tenants,
        "queue": names,
        "priority": st.integers(-9, 9),
        "start_at": st.just("2031-01-01T00:00:00.123456+02:00"),
        "metadata": st.just({"ticket": 1}),
        "traceparent": st.sampled_from([TRACE, f"{TRACE} vendor=1", "nonsense", TRACE.replace("4bf", "xyz")]),
    },
)


class Ways:
    """A database, and the three ways into it."""

    def __init__(self, app: Mainspring, store: PostgresStore, connection: Any) -> None:
        self._app, self._store, self._connection = app, store, connection
        self._numbers = itertools.count(1)

    async def check(self, spec: JobSpec, request: dict[str, Any]) -> None:
        number = next(self._numbers)
        await self._connection.rollback()  # what an example that failed has left
        await self._connection.execute(EMPTY)
        await self._connection.commit()
        job = Job(name=f"job{number}", id=f"id-{number}", declared=encode_spec(spec))
        assert (await self._store.write_jobs([JobWrite(job=job, seen_version=None)]))[0].won
        own = await self._row(await self._by_app(job, request, None), request)
        # In a transaction of the caller a row that may be skipped is marked while the list of endpoints is not fresh.
        in_transaction = await self._row(await self._by_app(job, request, self._connection), request)
        assert in_transaction | {"todo": own["todo"]} == own
        assert await self._row(await self._by_sql(job, request), request) == own

    async def _by_app(self, job: Job, request: dict[str, Any], connection: Any) -> str:
        options = {name: value for name, value in request.items() if name != "params"}
        made = await self._app.enqueue(job.name, request.get("params"), by="ann", connection=connection, **options)
        await self._connection.commit()
        assert made is not None
        return made.id

    async def _by_sql(self, job: Job, request: dict[str, Any]) -> str:
        asked = {"job": job.name, "by": "ann", **request}
        unique = asked.get("unique")
        if isinstance(unique, Unique):
            asked["unique"] = {"enqueued": unique.enqueued, "running": unique.running}
        text = json.dumps(asked, separators=(",", ":"), ensure_ascii=False)
        cursor = await self._connection.execute("SELECT mainspring.enqueue(%s::json) AS answer", (text,))
        answer = (await cursor.fetchone())["answer"]
        await self._connection.commit()
        assert answer["outcome"] == "added"
        return str(answer["id"])

    async def _row(self, id: str, request: dict[str, Any]) -> dict[str, Any]:
        """As the store reads it, with the columns that only SQL sees; then the tables are empty again."""
        row = await self._store.execution(id)
        assert row is not None
        cursor = await self._connection.execute("SELECT l.*, foreign_trace FROM mainspring.live l WHERE id = %s", (id,))
        columns = await cursor.fetchone()
        await self._connection.execute(EMPTY)
        await self._connection.commit()
        own = OWN - ({"due"} if "start_at" in request else set())
        hidden = {f"column {name}": value for name, value in columns.items() if name not in own | {"body"}}
        return {name: value for name, value in asdict(row).items() if name not in own} | hidden


@asynccontextmanager
async def ways(url: str) -> Any:
    app, store = Mainspring(url, poll_interval=NEVER), PostgresStore(url)
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
        await app.open()
        await store.open()
        yield Ways(app, store, connection)
        await store.close()
        await app.close()


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


PARENT = JobSpec(handler="h", tenants=True, limits=(Limit("k:{tenant}", concurrency=1),), weights={"*": 3})


@pytest.mark.req("ENQ-2")
def test_all_ways_in_make_the_same_row(runner: asyncio.Runner) -> None:
    place = ways(postgres().migrated_database())
    into = runner.run(place.__aenter__())

    @settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
    @example(spec=PARENT, request={})
    @example(spec=PARENT, request={"share": "acme", "unique": Unique(enqueued="u", running="r")})
    @example(spec=PARENT, request={"tenant": "acme", "unique": "u"})
    @given(spec=specs(), request=requests)
    def check(spec: JobSpec, request: dict[str, Any]) -> None:
        runner.run(into.check(spec, request))

    try:
        check()
    finally:
        runner.run(place.__aexit__(None, None, None))
