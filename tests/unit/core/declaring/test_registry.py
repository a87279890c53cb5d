"""Handlers by name, class and function; declarations checked when they are made, placeholders filled at start-up."""

from __future__ import annotations

import functools
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from mainspring.core.declaring.context import JobContext
from mainspring.core.declaring.registry import Handler, Registry
from mainspring.core.declaring.signature import PayloadMismatch
from mainspring.core.views.execution import Execution
from mainspring.model.errors import DuplicateRegistration, HandlerNotFound, InvalidValue
from mainspring.model.execution import ExecutionRow
from mainspring.model.job import JobSpec
from mainspring.model.policies import Retry
from mainspring.model.triggers import daily_at, encode_trigger, every
from mainspring.testing.clock import FakeClock


def crawl(ctx: JobContext, url: str = "http://localhost") -> dict[str, str]:
    """Crawl one site.

    This part is for the reader of the code.
    """
    return {"url": url}


def remind(ctx: JobContext, shift_id: str) -> None: ...


async def sync_shop() -> str:
    return "done"


class Reminder:
    """Reminds people of their shifts."""

    name = "reminder"
    max_attempts = 5

    def __init__(self, greeting: str = "hello") -> None:
        self.greeting = greeting

    def perform(self, data: dict[str, Any], execution: JobContext) -> tuple[str, Any, str]:
        return self.greeting, data, execution.execution_id


class Mailer:
    name = "mailer"

    def __init__(self, host: str, *, port: int = 25) -> None:
        self.host = host

    def perform(self, data: dict[str, Any]) -> str:
        return self.host


def context(params: str = "{}") -> JobContext:
    return JobContext(ExecutionRow(id="e1", job="job", job_id="j", handler="job", params=params), clock=FakeClock())


def here() -> str:
    frame = sys._getframe(1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


# ---------------------------------------------------------------- declaring a function


@pytest.mark.req("REG-1")
def test_a_declaration_makes_a_handler_and_its_job() -> None:
    registry = Registry()
    where = here().rpartition(":")[0]
    handler = registry.declare("crawl", crawl, trigger=every(minutes=30), retry=Retry("patient"), timeout="10m")
    assert (handler.name, handler.is_async, handler.isolation, handler.wants_context) == (
        "crawl",
        False,
        "thread",
        True,
    )
    assert handler.where.startswith(where)
    assert registry.names == {"crawl"}
    assert registry.declared_jobs() == [
        (
            "crawl",
            JobSpec(
                handler="crawl",
                trigger=encode_trigger(every(minutes=30)),
                max_attempts=3,
                retry=Retry("patient"),
                timeout=600.0,
                overlap="skip",
                isolation="thread",
                description="Crawl one site.",
            ),
        )
    ]


@pytest.mark.req("REG-1")
def test_a_handler_is_called_with_its_context_and_typed_parameters() -> None:
    registry = Registry()
    call = registry.declare("crawl", crawl).call(context(), '{"url":"http://shop"}')
    assert call() == {"url": "http://shop"}
    with pytest.raises(PayloadMismatch):
        registry.get("crawl").call(context(), '{"url":5}')


async def test_async_handlers_run_on_the_loop() -> None:
    handler = Registry().declare("sync", sync_shop)
    assert (handler.is_async, handler.isolation) == (True, "async")
    assert await handler.call(context(), "{}")() == "done"


# ---------------------------------------------------------------- ids


@pytest.mark.req("REG-5")
@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "x" * 101, 5, None, "a\n"])
def test_ids_are_well_formed(name: Any) -> None:
    with pytest.raises(InvalidValue, match=r"1 to 100 characters from A-Z a-z 0-9 _ . -"):
        Registry().declare(name, crawl)


@pytest.mark.req("REG-5")
def test_ids_are_case_sensitive() -> None:
    registry = Registry()
    registry.declare("crawl", crawl)
    registry.declare("Crawl", sync_shop)
    assert registry.names == {"crawl", "Crawl"}


@pytest.mark.req("REG-5")
def test_a_second_registration_names_both_places() -> None:
    registry = Registry()
    first = here()
    registry.declare("crawl", crawl)
    with pytest.raises(DuplicateRegistration) as raised:
        registry.declare("crawl", sync_shop)
    line = int(first.rpartition(":")[2])
    assert raised.value.first == f"{__file__}:{line + 1}"
    assert raised.value.second == f"{__file__}:{line + 3}"
    assert registry.get("crawl").target is crawl


@pytest.mark.req("REG-5")
def test_code_that_runs_twice_says_so() -> None:
    registry = Registry()

    def module() -> None:
        registry.declare("crawl", crawl)

    module()
    with pytest.raises(DuplicateRegistration, match="that code ran twice"):
        module()


@pytest.mark.req("REG-5")
def test_tests_may_override() -> None:
    registry = Registry()
    registry.declare("crawl", crawl)
    registry.schedule("crawl-news", crawl, every(minutes=1))
    registry.declare("crawl", sync_shop, allow_override=True)
    assert registry.get("crawl").target is sync_shop
    assert registry.resolve(sync_shop).name == "crawl"
    assert registry.find(crawl) is None
    assert [(name, spec.handler) for name, spec in registry.declared_jobs()] == [
        ("crawl", "crawl"),
        ("crawl-news", "crawl"),
    ]


# ---------------------------------------------------------------- finding


@pytest.mark.req("REG-4")
def test_handlers_are_found_by_name_function_class_and_object() -> None:
    registry = Registry()
    registry.declare("crawl", crawl)
    registry.register(Reminder)
    assert registry.resolve("crawl") is registry.resolve(crawl) is registry.resolve(registry.get("crawl"))
    assert registry.resolve(Reminder) is registry.resolve("reminder") is registry.resolve(Reminder())


@pytest.mark.req("REG-4")
def test_bound_methods_and_decorated_functions_are_found() -> None:
    class Shop:
        def sync(self) -> None: ...

    shop, registry = Shop(), Registry()
    registry.declare("sync", shop.sync)
    registry.declare("crawl", crawl)
    assert registry.resolve(shop.sync).name == "sync"
    assert registry.find(Shop().sync) is None
    assert registry.resolve(functools.wraps(crawl)(lambda: None)).name == "crawl"


@pytest.mark.req("REG-4")
def test_an_unknown_handler_suggests_the_nearest() -> None:
    registry = Registry()
    registry.declare("crawl", crawl)
    for ref, message in (
        ("crawI", "no handler named 'crawI'; did you mean 'crawl'?"),
        (remind, "no handler named 'remind'"),
        (Reminder, "no handler named 'Reminder'"),
        (Reminder(), "no handler named 'Reminder'"),
    ):
        with pytest.raises(HandlerNotFound, match=re.escape(message)):
            registry.resolve(ref)


def test_one_function_under_two_names_is_only_found_by_name() -> None:
    registry = Registry()
    registry.declare("one", crawl)
    registry.declare("two", crawl)
    with pytest.raises(InvalidValue, match="allowed: one, two"):
        registry.resolve(crawl)


# ---------------------------------------------------------------- classes


@pytest.mark.req("REG-2")
def test_a_class_is_constructed_once_and_serves_all_executions() -> None:
    registry = Registry()
    handler = registry.register(Reminder, queue="notifications")
    spec = dict(registry.declared_jobs())["reminder"]
    assert (spec.queue, spec.max_attempts, spec.description) == ("notifications", 5, "Reminds people of their shifts.")
    assert handler.cls is Reminder
    assert handler.call(context(), '{"a":1}')() == ("hello", {"a": 1}, "e1")
    assert handler.call(context(), "{}").func.__self__ is handler.instance  # type: ignore[attr-defined]


@pytest.mark.req("REG-2")
def test_an_object_is_registered_with_its_dependencies() -> None:
    registry = Registry()
    handler = registry.register(Mailer("smtp.local"), max_attempts=2)
    assert handler.call(context(), "{}")() == "smtp.local"
    assert dict(registry.declared_jobs())["mailer"].max_attempts == 2
    assert not handler.wants_context


@pytest.mark.req("REG-2")
def test_a_class_that_needs_arguments_says_what_to_do() -> None:
    with pytest.raises(InvalidValue, match=r"Register an object instead: Mailer\(host=\.\.\.\)"):
        Registry().register(Mailer)


@pytest.mark.req("REG-2")
def test_a_class_handler_needs_a_name_and_a_method() -> None:
    class Nameless:
        def perform(self, data: Any) -> None: ...

    class Idle:
        name = "idle"

    with pytest.raises(InvalidValue, match=r"Give it one: name = '...' in class Nameless"):
        Registry().register(Nameless)
    with pytest.raises(InvalidValue, match=r"A class needs a method perform\(data, execution\) or execute\(ctx\)"):
        Registry().register(Idle)


@pytest.mark.req("REG-2")
async def test_perform_may_be_async_and_get_the_record() -> None:
    class Job:
        name = "job"

        async def perform(self, data: dict[str, Any], execution: Execution) -> str:
            return execution.id

    handler = Registry().register(Job)
    assert handler.is_async
    assert await handler.call(context(), "{}")() == "e1"


@pytest.mark.req("REG-8")
def test_the_first_object_of_a_class_is_kept_with_a_warning() -> None:
    registry = Registry()
    first = Reminder("first")
    registry.register(first)
    with pytest.warns(UserWarning, match="handler 'reminder' keeps its first Reminder object") as warned:
        registry.register(Reminder("second"))
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="keeps its first"):
        registry.schedule("again", Reminder("third"), every(minutes=5))
    assert registry.get("reminder").instance is first
    with pytest.raises(DuplicateRegistration):
        registry.register(first)


def test_a_dataclass_does_not_describe_itself_with_its_signature() -> None:
    @dataclass
    class Job:
        name: str = "job"

        def perform(self, data: dict[str, Any]) -> None:
            """Does the work."""

    registry = Registry()
    registry.register(Job())
    assert dict(registry.declared_jobs())["job"].description == "Does the work."


@pytest.mark.req("REG-11")
def test_handlers_that_could_only_fail_later_are_refused() -> None:
    def generator(ctx):  # type: ignore[no-untyped-def]
        yield 1

    @contextmanager
    def timed():  # type: ignore[no-untyped-def]
        yield

    for odd, message in (
        (generator, "Remove the yield"),
        (timed()(sync_shop), "make its wrapper async def"),
        (5, "handler 'odd': 5 is not valid; allowed: a function, or an object with perform or execute"),
        (Handler, "A class needs a method"),
        (print, "allowed: parameters with names"),
    ):
        with pytest.raises(InvalidValue, match=re.escape(message)):
            Registry().declare("odd", odd)


# ---------------------------------------------------------------- further jobs of one handler


@pytest.mark.req("REG-8")
def test_one_handler_has_many_jobs_that_follow_its_policy() -> None:
    registry = Registry()
    registry.declare("crawl", crawl, trigger=every(minutes=30), retry="patient", timeout="10m", queue="web")
    registry.schedule("crawl-news", crawl, every(minutes=15), params={"url": "http://localhost/news"}, queue="news")
    registry.schedule("crawl-nightly", "crawl", cron="0 0 3 * * *", overlap="queue", max_attempts=1)
    jobs = dict(registry.declared_jobs())
    news, nightly = jobs["crawl-news"], jobs["crawl-nightly"]
    assert (news.handler, news.queue, news.params) == ("crawl", "news", {"url": "http://localhost/news"})
    assert (news.retry, news.timeout, news.trigger) == (Retry("patient"), 600.0, encode_trigger(every(minutes=15)))
    assert (nightly.queue, nightly.overlap, nightly.max_attempts, nightly.params) == ("web", "queue", 1, {})
    assert registry.names == {"crawl"}


@pytest.mark.req("REG-8")
def test_scheduling_registers_what_is_not_known_yet() -> None:
    registry = Registry()
    registry.schedule("cleanup", sync_shop, every(hours=1))
    registry.schedule("remind-daily", Reminder, daily_at("08:00"))
    assert registry.names == {"cleanup", "reminder"}
    assert [name for name, _ in registry.declared_jobs()] == ["cleanup", "reminder", "remind-daily"]


def test_scheduling_checks_names_triggers_and_handlers() -> None:
    registry = Registry()
    registry.declare("crawl", crawl)
    with pytest.raises(DuplicateRegistration):
        registry.schedule("crawl", crawl, every(minutes=1))
    with pytest.raises(HandlerNotFound, match="did you mean 'crawl'"):
        registry.schedule("news", "crawll", every(minutes=1))
    with pytest.raises(InvalidValue, match="any_of"):
        registry.schedule("news", crawl, every(minutes=1), trigger=every(minutes=2))
    with pytest.raises(InvalidValue, match="params has no parameter"):
        registry.schedule("news", crawl, every(minutes=1), params={"x": 1})
    assert [name for name, _ in registry.declared_jobs()] == ["crawl"]


def test_an_inherited_limit_does_not_outlive_its_overlap_rule() -> None:
    registry = Registry()
    registry.declare("crawl", crawl, overlap="allow", overlap_limit=3)
    registry.schedule("news", crawl, every(minutes=1), overlap="skip")
    registry.schedule("blogs", crawl, every(minutes=1))
    jobs = dict(registry.declared_jobs())
    assert (jobs["news"].overlap_limit, jobs["blogs"].overlap_limit) == (None, 3)


@pytest.mark.req("EXE-10")
def test_inherited_limits_of_a_process_do_not_reach_a_thread() -> None:
    registry = Registry()
    registry.declare("crawl", crawl, isolation="process", max_cpu=5, max_memory="1GB")
    registry.schedule("news", crawl, every(minutes=1), isolation="thread")
    registry.schedule("blogs", crawl, every(minutes=1), max_cpu=9)
    jobs = dict(registry.declared_jobs())
    assert (jobs["news"].isolation, jobs["news"].max_cpu, jobs["news"].max_memory) == ("thread", None, None)
    assert (jobs["blogs"].isolation, jobs["blogs"].max_cpu, jobs["blogs"].max_memory) == ("process", 9.0, 10**9)
