"""What `@app.job` returns: still the function, and a handle of its job."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import sqlite3
import warnings
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from mainspring import Execution, InvalidValue, JobContext, JobHandle, Mainspring, every
from mainspring.testing import harness

app = Mainspring("memory://")


@app.job("add", queue="math")
async def add(first: int, second: int = 0) -> int:
    """Adds."""
    return first + second


@app.job("crawl", trigger=every(hours=1), overlap="allow")
def crawl(ctx: JobContext, url: str = "http://localhost", *, depth: int = 1) -> str:
    return f"{url} to depth {depth}"


# --- the function -------------------------------------------------------------------------------------------


def test_annotations_that_only_type_checkers_can_read_do_not_stop_a_declaration() -> None:
    """As Python 3.14 evaluates them: when they are read."""

    class Deferred:
        @property
        def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
            raise NameError("name 'Report' is not defined")

        def __call__(self) -> int:
            return 7

    assert JobHandle(app, "deferred", (), Deferred())() == 7


async def test_calling_it_calls_the_function() -> None:
    assert await add(1, second=2) == 3
    assert crawl(None, "x") == "x to depth 1"  # type: ignore[arg-type]


def test_it_looks_like_the_function() -> None:
    assert isinstance(add, JobHandle)
    assert (add.__name__, add.__qualname__, add.__module__, add.__doc__) == ("add", "add", __name__, "Adds.")
    assert str(inspect.signature(add)) == "(first: 'int', second: 'int' = 0) -> 'int'"
    assert get_type_hints(add)["first"] is int
    assert [inspect.iscoroutinefunction(each) for each in (add, crawl)] == [True, False]
    with warnings.catch_warnings():  # Python 3.14 deprecates it; frameworks still ask it
        warnings.simplefilter("ignore", DeprecationWarning)
        assert [asyncio.iscoroutinefunction(each) for each in (add, crawl)] == [True, False]
    assert (add.name, repr(add).startswith("<job 'add' of <function add")) == ("add", True)


def test_it_is_pickled_and_copied_as_a_function_is() -> None:
    assert pickle.loads(pickle.dumps(add)) is add
    assert copy.deepcopy(add) is copy.copy(add) is add


def test_completion_shows_what_a_handle_does() -> None:
    assert [name for name in dir(add) if not name.startswith("_")] == [
        "bind",
        "enqueue",
        "name",
        "options",
        "sync",
        "trigger",
    ]
    assert [name for name in dir(add.options()) if not name.startswith("_")] == ["bind", "enqueue", "name", "sync"]


def test_classes_and_objects_come_back_as_they_are() -> None:
    own = Mainspring("memory://")

    class Importer:
        def perform(self, data: dict[str, Any]) -> None: ...

    class Report:
        def execute(self, ctx: JobContext) -> None: ...

    class Callable(Importer):
        def __call__(self) -> None: ...

    report, both = Report(), Callable()
    assert own.job("importer")(Importer) is Importer
    assert own.job("report")(report) is report
    assert own.job("callable")(both) is both


def test_one_function_may_be_several_jobs() -> None:
    own = Mainspring("memory://")

    def work(n: int = 0) -> int:
        return n

    first, second = own.job("first")(work), own.job("second")(work)
    third = own.job("third")(partial(work, n=3))
    assert [each() for each in (first, second, third)] == [0, 0, 3]
    with harness(own) as kit:
        for each in (first, second, third):
            own.sync.enqueue(each)
        own.sync.enqueue_many([(first, {"n": 1}), (second, {"n": 2}), third.bind()])
        kit.run_until_idle()
        assert [(row.job, row.result) for row in kit.executions()] == [
            ("first", 0),
            ("second", 0),
            ("third", 3),
            ("first", 1),
            ("second", 2),
            ("third", 3),
        ]
        assert len(kit.assert_ran(second)) == 2


def test_further_declarations_take_a_handle() -> None:
    own = Mainspring("memory://")
    work = own.job("work", queue="slow")(crawl)
    own.schedule("again", work, every(hours=2), params={"url": "http://localhost/again"})
    own.registrar.hourly_at("hourly", work, 15)
    specs = dict(own._runtime.registry.declared_jobs())
    assert sorted(specs) == ["again", "hourly", "work"]
    assert {(spec.handler, spec.queue) for spec in specs.values()} == {("work", "slow")}


# --- enqueue ------------------------------------------------------------------------------------------------


async def test_enqueue_and_trigger_with_the_parameters_of_the_function() -> None:
    async with harness(app) as kit:
        made = [
            await add.enqueue(1),
            await add.enqueue(1, 2),
            await add.enqueue(second=4, first=3),
            await crawl.enqueue("http://localhost/news", depth=2),
            await crawl.trigger(url="http://localhost/now"),
        ]
        assert [(each.job, each.trigger, each.queue) for each in made] == [
            ("add", "enqueue", "math"),
            ("add", "enqueue", "math"),
            ("add", "enqueue", "math"),
            ("crawl", "enqueue", "default"),
            ("crawl", "manual", "default"),
        ]
        await kit.run_until_idle()
        ended = [(await app.get(each.id)).result for each in made[:4]]
        assert ended == [1, 3, 7, "http://localhost/news to depth 2"]


async def test_options_of_an_enqueue() -> None:
    async with harness(app, start="2026-05-01T12:00:00Z"):
        request = add.options(start_at="10m", unique="once", queue="slow", priority=5, tenant="acme", by="ada")
        made = await request.enqueue(1)
        assert made is not None
        assert (made.queue, made.priority, made.tenant, made.triggered_by) == ("slow", 5, "acme", "ada")
        assert made.start_at.isoformat() == "2026-05-01T12:10:00+00:00"
        assert await request.enqueue(1) is None
        assert (await add.enqueue(1)).queue == "math"


async def test_many_at_once() -> None:
    async with harness(app) as kit:
        made = await app.enqueue_many(
            [add.bind(1), add.options(priority=5).bind(second=2, first=1), (crawl, {"depth": 3})], by="ada"
        )
        assert [(each.job, each.params, each.priority, each.triggered_by) for each in made if each] == [
            ("add", {"first": 1}, 0, "ada"),
            ("add", {"first": 1, "second": 2}, 5, "ada"),
            ("crawl", {"depth": 3}, 0, "ada"),
        ]
        kit.assert_enqueued(add, count=2)


async def test_wrong_parameters_are_refused() -> None:
    async with harness(app) as kit:
        with pytest.raises(TypeError, match="job 'add' takes 2 parameters but 3 were given"):
            await add.enqueue(1, 2, 3)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="job 'add' got two values for parameter 'first'"):
            await add.enqueue(1, first=2)  # type: ignore[misc]
        with pytest.raises(InvalidValue, match="second"):
            await add.enqueue(1, second="two")  # type: ignore[arg-type]
        with pytest.raises(InvalidValue, match=r"connection.*Write app.enqueue_many"):
            add.options(connection=object()).bind(1)
        with pytest.raises(InvalidValue, match=r"option: .prio. is not valid.*Did you mean .priority.?"):
            await add.options(prio=5).enqueue(1)  # type: ignore[call-overload]
        assert kit.executions() == []


def test_the_blocking_side(tmp_path: Path) -> None:
    own = Mainspring(tmp_path / "jobs.db")
    work = own.job("work")(add)
    made = work.sync.enqueue(1, second=2)
    assert isinstance(made, Execution)
    assert work.options(unique="k").sync.enqueue(1) is not None
    assert work.options(unique="k").sync.enqueue(1) is None
    assert work.sync.trigger(5).trigger == "manual"
    connection = sqlite3.connect(tmp_path / "jobs.db")
    with connection:
        inside = work.options(connection=connection).sync.enqueue(7)
    assert own.sync.get(inside.id).params == {"first": 7}
    connection.close()
    own.sync.close()


def test_a_handle_of_an_overridden_job_enqueues_the_job_of_its_name() -> None:
    own = Mainspring("memory://")
    old = own.job("work")(add)
    own.job("work", allow_override=True)(lambda first, second=0: "fake")
    with harness(own) as kit:
        old.sync.enqueue(1)
        kit.run_until_idle()
        assert kit.assert_ran("work")[0].result == "fake"
