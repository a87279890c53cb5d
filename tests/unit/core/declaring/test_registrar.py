"""Schedules for objects with `execute(ctx)`."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Any

import pytest

from mainspring.core.declaring.context import JobContext
from mainspring.core.declaring.registrar import Registrar
from mainspring.core.declaring.registry import Registry
from mainspring.model.errors import DuplicateRegistration, InvalidValue
from mainspring.model.execution import ExecutionRow
from mainspring.model.triggers import Trigger, daily_at, encode_trigger, every, hourly_at, monthly_at, weekly_at
from mainspring.testing.clock import FakeClock

pytestmark = pytest.mark.req("REG-3")


class Report:
    """Writes the report."""

    def __init__(self, region: str = "eu") -> None:
        self.region = region

    def execute(self, ctx: JobContext) -> str:
        return f"{self.region} {ctx.job}"


class AsyncReport:
    async def execute(self, run):  # type: ignore[no-untyped-def]
        return run.job


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def registrar(registry: Registry) -> Registrar:
    return Registrar(registry)


def context(job: str) -> JobContext:
    return JobContext(ExecutionRow(id="e1", job=job, job_id="j", handler=job), clock=FakeClock())


@pytest.mark.parametrize(
    ("method", "arguments", "trigger"),
    [
        ("fixed_rate", ("30s",), every(seconds=30)),
        ("fixed_rate", (timedelta(minutes=5),), every(minutes=5)),
        ("fixed_rate", (0.5,), every(seconds=0.5)),
        ("hourly_at", (15,), hourly_at(15)),
        ("daily_at", ("03:00",), daily_at("03:00")),
        ("daily_at", (time(3, 0),), daily_at("03:00")),
        ("weekly_at", ("monday", "06:30"), weekly_at(1, "06:30")),
        ("weekly_at", (7, "06:30"), weekly_at("sun", "06:30")),
        ("monthly_at", (31, "23:30"), monthly_at(31, "23:30")),
    ],
)
def test_each_method_declares_a_job_with_its_trigger(
    registry: Registry, registrar: Registrar, method: str, arguments: tuple[Any, ...], trigger: Trigger
) -> None:
    getattr(registrar, method)("report", Report(), *arguments)
    ((name, spec),) = registry.declared_jobs()
    assert (name, spec.handler, spec.trigger) == ("report", "report", encode_trigger(trigger))
    assert (spec.overlap, spec.max_attempts, spec.description) == ("skip", 3, "Writes the report.")


@pytest.mark.req("REG-11")
@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("fixed_rate", (-5,), "duration: -5 is not valid"),
        ("fixed_rate", (0,), "duration: 0 is not valid; allowed: a duration above zero"),
        ("fixed_rate", ("often",), "duration: 'often' is not valid"),
        ("hourly_at", (60,), "minute: 60 is not valid; allowed: a whole number from 0 to 59"),
        ("daily_at", ("25:00",), "time: '25:00' is not valid; allowed: \"HH:MM\""),
        ("daily_at", (3,), "time: 3 is not valid"),
        ("weekly_at", (8, "03:00"), "weekday: 8 is not valid; allowed: 1 (Monday) to 7 (Sunday)"),
        ("weekly_at", ("someday", "03:00"), "weekday: 'someday' is not valid"),
        ("monthly_at", (32, "03:00"), "day: 32 is not valid; allowed: a whole number from 1 to 31"),
        ("monthly_at", (0, "03:00"), "day: 0 is not valid"),
    ],
)
def test_bad_times_are_refused_with_their_range(
    registry: Registry, registrar: Registrar, method: str, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(InvalidValue) as raised:
        getattr(registrar, method)("report", Report(), *arguments)
    assert message in str(raised.value)
    assert not registry.names


def test_options_of_a_job_are_taken_too(registry: Registry, registrar: Registrar) -> None:
    registrar.daily_at("report", Report(), "03:00", tz="Europe/Istanbul", queue="slow", timeout="1h")
    spec = dict(registry.declared_jobs())["report"]
    assert (spec.tz, spec.queue, spec.timeout) == ("Europe/Istanbul", "slow", 3600.0)
    with pytest.raises(InvalidValue, match="Did you mean 'timeout'"):
        registrar.daily_at("other", Report(), "03:00", timout=5)  # type: ignore[call-arg]


async def test_jobs_are_called_with_their_context(registrar: Registrar) -> None:
    handler = registrar.fixed_rate("report", Report("us"), 60)
    assert handler.call(context("report"), "{}")() == "us report"
    handler = registrar.fixed_rate("async", AsyncReport(), 60)
    assert handler.is_async
    assert await handler.call(context("async"), "{}")() == "async"


def test_functions_and_classes_work_as_well(registry: Registry, registrar: Registrar) -> None:
    registrar.hourly_at("function", lambda: 5, 0)
    registrar.hourly_at("class", Report, 0)
    assert registry.get("function").call(context("function"), "{}")() == 5
    assert registry.get("class").call(context("class"), "{}")() == "eu class"


def test_two_objects_of_a_class_are_two_handlers(registry: Registry, registrar: Registrar) -> None:
    registrar.daily_at("report-eu", Report("eu"), "03:00")
    registrar.daily_at("report-us", Report("us"), "03:00")
    assert registry.get("report-us").call(context("report-us"), "{}")() == "us report-us"
    with pytest.raises(InvalidValue, match="allowed: report-eu, report-us"):
        registry.resolve(Report)


@pytest.mark.req("REG-8")
def test_one_object_under_two_ids_is_one_handler_with_two_jobs(registry: Registry, registrar: Registrar) -> None:
    report = Report()
    registrar.daily_at("morning", report, "08:00")
    registrar.daily_at("evening", report, "18:00")
    assert registry.names == {"morning"}
    assert [(name, spec.handler) for name, spec in registry.declared_jobs()] == [
        ("morning", "morning"),
        ("evening", "morning"),
    ]


@pytest.mark.req("REG-5")
def test_an_id_is_registered_once(registrar: Registrar) -> None:
    registrar.daily_at("report", Report(), "03:00")
    with pytest.raises(DuplicateRegistration):
        registrar.daily_at("report", Report(), "04:00")
    assert registrar.daily_at("report", Report("us"), "04:00", allow_override=True).instance.region == "us"
