"""Whatever is wrong, one message says which field, which value, what is allowed, and how to put it right."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mainspring import (
    ConfigurationError,
    InvalidValue,
    JobContext,
    Mainspring,
    MainspringError,
    Retention,
    Retry,
    RetryAfter,
    Unique,
    any_of,
    cron,
    daily_at,
    every,
    hourly_at,
    monthly_at,
    offset,
    once,
    weekly_at,
)
from mainspring.core.views.job import job_of
from tests.support import Nodes


def one_line(refused: pytest.ExceptionInfo[BaseException], *parts: str) -> None:
    message = str(refused.value)
    assert isinstance(refused.value, MainspringError)
    assert "\n" not in message
    assert len(message) < 1_000
    assert [part for part in parts if part not in message] == [], message


def named(cases: list[tuple[Any, tuple[str, ...]]]) -> list[str]:
    """Ids that are the same in every test process."""
    return [f"{number}-{parts[0][:30]}" for number, (_, parts) in enumerate(cases)]


# --- triggers, zones, policies -------------------------------------------------------------------------------

VALUES: list[tuple[Callable[[], Any], tuple[str, ...]]] = [
    (lambda: daily_at("25:00"), ("time: '25:00' is not valid", "hour 0 to 23")),
    (lambda: daily_at("24:00"), ("time: '24:00'", 'Midnight is "00:00"')),
    (lambda: daily_at("3 am"), ("time: '3 am' is not valid", "HH:MM")),
    (lambda: weekly_at(8, "03:00"), ("weekday: 8 is not valid", "1 (Monday) to 7 (Sunday)")),
    (lambda: weekly_at(0, "03:00"), ("weekday: 0 is not valid", "1 (Monday) to 7 (Sunday)")),
    (lambda: weekly_at("someday", "03:00"), ("weekday: 'someday' is not valid",)),
    (lambda: monthly_at(32, "03:00"), ("day: 32 is not valid", "1 to 31")),
    (lambda: monthly_at(0, "03:00"), ("day: 0 is not valid", "1 to 31")),
    (lambda: hourly_at(60), ("minute: 60 is not valid", "0 to 59")),
    (lambda: hourly_at("15"), ("minute: '15' is not valid",)),
    (lambda: every(seconds=-5), ("-5", "not valid")),
    (lambda: every(), ("every", "not valid")),
    (lambda: every(minutes=0), ("not valid",)),
    (lambda: cron("0 25 * * *"), ("hour", "25", "0", "23")),
    (lambda: cron("0 0 31 2 *"), ("31", "not valid")),
    (lambda: cron("* * * *"), ("'* * * *'", "5", "6")),
    (lambda: cron("* * * * * * *"), ("not valid",)),
    (lambda: cron("never"), ("'never'", "not valid")),
    (lambda: cron(""), ("''", "not valid")),
    (lambda: cron(5), ("5", "not valid")),
    (lambda: cron("0 3 * * *", tz="Mars/Olympus"), ("tz: 'Mars/Olympus' is not valid",)),
    (lambda: cron("0 3 * * *", tz="Europe/Istambul"), ("'Europe/Istambul'", "Europe/Istanbul")),
    (lambda: cron("0 3 * * *", gap="jump"), ("gap: 'jump' is not valid", "'skip'")),
    (lambda: once("tomorrow"), ("'tomorrow' is not valid", "ISO 8601")),
    (lambda: once(datetime(1, 1, 1)), ("once: datetime.datetime(1, 1, 1, 0, 0) is not valid", "from the year 1970")),
    (lambda: any_of(), ("any_of", "at least one trigger")),
    (lambda: offset("1h", "2h"), ("window offset", "a begin further back than the end")),
    (lambda: Retry(initial="soon"), ("retry.initial: 'soon' is not valid",)),
    (lambda: Retry(initial=-1), ("retry.initial: -1",)),
    (lambda: Retry(multiplier=0.5), ("retry.multiplier: 0.5 is not valid", "a number from 1 to 100")),
    (lambda: Retry(jitter=2), ("retry.jitter: 2 is not valid", "a share from 0 to 1")),
    (lambda: Retry(max="-1s"), ("retry.max: '-1s' is not valid",)),
    (lambda: Retry(multiplier="2"), ("retry.multiplier: '2' is not valid",)),  # type: ignore[arg-type]
    (lambda: Retention(days=-1), ("retention.days: -1 is not valid", "a number from 0 up")),
    (lambda: Retention(at_most=0), ("retention.at_most: 0 is not valid",)),
    (lambda: Retention(newest="all"), ("retention.newest: 'all' is not valid",)),  # type: ignore[arg-type]
    (lambda: Unique(enqueued=""), ("unique.enqueued: '' is not valid", "1 to 500 characters")),
    (lambda: Unique(running=7), ("unique.running: 7 is not valid",)),  # type: ignore[arg-type]
    (lambda: RetryAfter("soon"), ("delay: 'soon' is not valid",)),
    (lambda: RetryAfter(-1), ("delay: -1 is not valid",)),
]


@pytest.mark.req("REG-11")
@pytest.mark.parametrize(("make", "parts"), VALUES, ids=named(VALUES))
def test_a_wrong_value(make: Callable[[], Any], parts: tuple[str, ...]) -> None:
    with pytest.raises(InvalidValue) as refused:
        make()
    one_line(refused, *parts)


# --- declarations --------------------------------------------------------------------------------------------

OPTIONS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"cron": "0 25 * * *"}, ("hour", "25")),
    ({"cron": "61 * * * *"}, ("minute", "61")),
    ({"cron": every(minutes=5)}, ("cron: ", "as trigger=")),
    ({"trigger": "0 3 * * *"}, ("trigger: '0 3 * * *' is not valid", "Pass a cron expression as cron=")),
    ({"trigger": 5}, ("trigger: 5 is not valid", "every(minutes=30)")),
    ({"trigger": every(minutes=5), "cron": "0 3 * * *"}, ("either trigger= or cron=", "Remove one of them")),
    ({"interval_minutes": 0}, ("interval_minutes: 0 is not valid",)),
    ({"interval_minutes": -5}, ("interval_minutes: -5 is not valid",)),
    ({"interval_minutes": 5, "interval_type": "weeks"}, ("interval_type: 'weeks' is not valid", "minutes")),
    ({"interval_type": "hours"}, ("interval_type: 'hours' is not valid", "interval_minutes=")),
    ({"tz": "Mars/Olympus"}, ("tz: 'Mars/Olympus' is not valid",)),
    ({"tz": 3}, ("tz: 3 is not valid",)),
    ({"trigger": daily_at("03:00", tz="Europe/Paris"), "tz": "UTC"}, ("tz: 'UTC'", "Give the zone once")),
    ({"queue": "a queue"}, ("queue: 'a queue' is not valid", "Try 'a-queue'")),
    ({"queue": ""}, ("queue: '' is not valid",)),
    ({"queue": 7}, ("queue: 7 is not valid",)),
    ({"priority": "high"}, ("priority: 'high' is not valid", "a whole number from -32768 to 32767")),
    ({"priority": 1.5}, ("priority: 1.5 is not valid",)),
    ({"priority": True}, ("priority: True is not valid",)),
    ({"max_attempts": 0}, ("max_attempts: 0 is not valid", "a whole number from 1 to 1000")),
    ({"max_attempts": -1}, ("max_attempts: -1",)),
    ({"max_attempts": "3"}, ("max_attempts: '3'",)),
    ({"retry": "often"}, ("retry: 'often' is not valid", "'patient'")),
    ({"retry": 5}, ("retry: 5 is not valid", "The number of attempts is max_attempts=5")),
    ({"timeout": 0}, ("timeout: 0 is not valid", "a duration above zero")),
    ({"timeout": -1}, ("timeout: -1 is not valid",)),
    ({"timeout": "ten minutes"}, ("timeout: 'ten minutes' is not valid", '"10m"')),
    ({"timeout": float("nan")}, ("timeout: nan is not valid",)),
    ({"timeout": float("inf")}, ("timeout: inf is not valid",)),
    ({"non_retryable": [5]}, ("non_retryable: 5 is not valid", "exception classes")),
    ({"non_retryable": "not a name"}, ("non_retryable: 'not a name' is not valid",)),
    ({"overlap": "sometimes"}, ("overlap: 'sometimes' is not valid", "'skip', 'queue', 'allow' or 'cancel_running'")),
    ({"overlap": "skip", "overlap_limit": 3}, ("overlap_limit: 3 is not valid", "Set overlap='allow'")),
    ({"overlap_limit": 0}, ("overlap_limit: 0 is not valid",)),
    ({"missed": "some"}, ("missed: 'some' is not valid", "'skip', 'latest', 'all', or CatchUp")),
    ({"missed_while_paused": "some"}, ("missed_while_paused: 'some' is not valid",)),
    ({"grace": "-1s"}, ("grace: '-1s' is not valid",)),
    ({"window": "fortnight"}, ("window: 'fortnight' is not valid", "yesterday")),
    ({"window": "yesterdy"}, ("window: 'yesterdy' is not valid", "Did you mean 'yesterday'?")),
    ({"enabled": "no"}, ("enabled: 'no' is not valid", "True or False")),
    ({"schedule_enabled": 1}, ("schedule_enabled: 1 is not valid",)),
    ({"retention": 30}, ("retention: 30 is not valid", "Retention(...)")),
    ({"retention": {"dayz": 3}}, ("retention: ", "dayz")),
    ({"params": {"uri": "x"}}, ("params has no parameter 'uri'; did you mean 'url'?",)),
    ({"params": {"url": 5}}, ("params.url: 5 is not valid", "str")),
    ({"params": ["x"]}, ("params: ", "an object (dict) of parameters")),
    ({"params": {"url": "a\x00b"}}, ("params.url",)),
    ({"metadata": 7}, ("metadata: 7 is not valid",)),
    ({"metadata": {"x": object()}}, ("metadata.x: ",)),
    ({"description": 7}, ("description: 7 is not valid",)),
    ({"crom": "0 3 * * *"}, ("option: 'crom' is not valid", "Did you mean 'cron'?")),
    ({"cron": "${"}, ("cron: '${' is not valid", "${key}")),
    ({"allow_override": "yes"}, ("allow_override: 'yes' is not valid",)),
]


@pytest.mark.req("REG-11", "REG-6")
@pytest.mark.parametrize(("options", "parts"), OPTIONS, ids=named(OPTIONS))
def test_a_wrong_declaration_fails_where_it_is_made(options: dict[str, Any], parts: tuple[str, ...]) -> None:
    app = Mainspring("memory://")

    def crawl(ctx: JobContext, url: str = "http://localhost") -> None: ...

    with pytest.raises(InvalidValue) as refused:
        app.job("crawl", **options)(crawl)
    one_line(refused, *parts)
    assert app._runtime.registry.names == frozenset()
    app.job("crawl")(crawl)
    with pytest.raises(InvalidValue) as again:
        app.schedule("crawl-2", crawl, **options)
    one_line(again, *parts)


def needs_session(ctx: JobContext, session: Any, /) -> None: ...


def anything(*args: int) -> None: ...


def stranger(ctx: JobContext, thing: Mainspring) -> None: ...


def generator(ctx: JobContext) -> Any:
    yield 1


class NoMethod:
    name = "no-method"


class NoName:
    def perform(self, data: Any) -> None: ...


class Needs:
    name = "needs"

    def __init__(self, database: str) -> None: ...

    def perform(self, data: Any) -> None: ...


HANDLERS: list[tuple[Callable[[Mainspring], Any], tuple[str, ...]]] = [
    (lambda app: app.job("no spaces")(print), ("name: 'no spaces' is not valid", "Try 'no-spaces'")),
    (lambda app: app.job("")(print), ("name: '' is not valid",)),
    (lambda app: app.job("x" * 101)(print), ("name: ", "1 to 100 characters")),
    (lambda app: app.job("a/b")(print), ("name: 'a/b' is not valid",)),
    (lambda app: app.job("ünïcode")(print), ("name: 'ünïcode' is not valid",)),
    (lambda app: app.job(print), ("name: ", "is not valid")),  # @app.job without parentheses
    (lambda app: app.job("x")(5), ("handler 'x': 5 is not valid", "a function")),  # type: ignore[type-var]
    (lambda app: app.job("x")(anything), ("handler 'x'", "*args", "Name the parameters")),
    (lambda app: app.job("x")(needs_session), ("handler 'x'", "Remove the /")),
    (lambda app: app.job("x")(stranger), ("parameter 'thing' of handler 'x'", "Mainspring", "ctx.resources")),
    (lambda app: app.job("x")(generator), ("handler 'x'", "Remove the yield")),
    (lambda app: app.job("x", cron="0 3 * * *")(lambda url: None), ("params.url is missing",)),
    (lambda app: app.register(NoMethod), ("handler 'no-method'", "perform(data, execution) or execute(ctx)")),
    (lambda app: app.register(NoName), ("name of NoName", "Give it one")),
    (lambda app: app.register(Needs), ("class Needs", "Register an object instead: Needs(database=...)")),
    (lambda app: app.schedule("x", "nobody"), ("no handler named 'nobody'",)),
    (lambda app: app.registrar.fixed_rate("x", NoName(), "-1s"), ("duration: '-1s' is not valid",)),
    (lambda app: app.registrar.daily_at("x", NoName(), "25:00"), ("time: '25:00'",)),
    (lambda app: app.registrar.weekly_at("x", NoName(), 8, "03:00"), ("weekday: 8",)),
    (lambda app: app.registrar.monthly_at("x", NoName(), 32, "03:00"), ("day: 32",)),
    (lambda app: app.registrar.hourly_at("x", NoName(), 75), ("minute: 75",)),
]


@pytest.mark.req("REG-5", "REG-11")
@pytest.mark.parametrize(("declare", "parts"), HANDLERS, ids=named(HANDLERS))
def test_a_wrong_handler_or_name(declare: Callable[[Mainspring], Any], parts: tuple[str, ...]) -> None:
    app = Mainspring("memory://")
    with pytest.raises(MainspringError) as refused:
        declare(app)
    one_line(refused, *parts)
    assert app._runtime.registry.names == frozenset()


# --- enqueue, trigger, steering ------------------------------------------------------------------------------

CALLS: list[tuple[Callable[[Mainspring], Any], tuple[str, ...]]] = [
    (lambda app: app.enqueue("greet"), ("params.name is missing", "takes (name: str")),
    (lambda app: app.enqueue("greet", {"name": 5}), ("params.name: 5 is not valid", "str")),
    (lambda app: app.enqueue("greet", {"nam": "x"}), ("no parameter 'nam'; did you mean 'name'?",)),
    (lambda app: app.enqueue("greet", ["x"]), ("params: ['x'] is not valid", "an object (dict)")),
    (lambda app: app.enqueue("greet", "x"), ("params: 'x' is not valid",)),
    (lambda app: app.enqueue("great", {}), ("no handler named 'great'; did you mean 'greet'?",)),
    (lambda app: app.enqueue(None, {}), ("no handler named 'NoneType'",)),
    (lambda app: app.enqueue(5, {}), ("no handler named 'int'",)),
    (lambda app: app.enqueue("greet", {"name": "x"}, priority=10**6), ("priority: 1000000 is not valid",)),
    (lambda app: app.enqueue("greet", {"name": "x"}, priority="high"), ("priority: 'high' is not valid",)),
    (lambda app: app.enqueue("greet", {"name": "x"}, queue="a queue"), ("queue: 'a queue'", "Try 'a-queue'")),
    (lambda app: app.enqueue("greet", {"name": "x"}, start_at="soon"), ("start_at: 'soon' is not valid", "ISO 8601")),
    (lambda app: app.enqueue("greet", {"name": "x"}, start_at=datetime(1, 1, 1)), ("start_at", "from the year 1970")),
    (lambda app: app.enqueue("greet", {"name": "x"}, start_at=float("nan")), ("start_at: nan is not valid",)),
    (lambda app: app.enqueue("greet", {"name": "x"}, start_at=1e300), ("start_at: 1e+300 is not valid",)),
    (lambda app: app.enqueue("greet", {"name": "x"}, unique=""), ("unique", "1 to 500 characters")),
    (lambda app: app.enqueue("greet", {"name": "x"}, unique=7), ("unique", "7 is not valid")),
    (lambda app: app.enqueue("greet", {"name": "x"}, by=7), ("by: 7 is not valid",)),
    (lambda app: app.enqueue("greet", {"name": "x"}, by="a\x00b"), ("by: 'a\\x00b' is not valid", "without NUL")),
    (lambda app: app.enqueue("greet", {"name": "x"}, by=""), ("by: '' is not valid",)),
    (lambda app: app.enqueue("greet", {"name": "x"}, metadata=7), ("metadata: 7 is not valid",)),
    (lambda app: app.enqueue_many(5), ("items: 5 is not valid",)),
    (lambda app: app.enqueue_many([5]), ("items: 5 is not valid", "(handler, params)")),
    (lambda app: app.trigger("great"), ("no job named 'great'; did you mean 'greet'?",)),
    (lambda app: app.trigger("greet", {"name": "x"}, by=None), ("by: None is not valid",)),
    (lambda app: app.trigger("greet", {"name": "x"}, window=5), ("window: 5 is not valid",)),
    (lambda app: app.pause("nightly", note="a\x00"), ("note: 'a\\x00' is not valid",)),
    (lambda app: app.pause("nightly", by=5), ("by: 5 is not valid",)),
    (lambda app: app.pause("nightly", resume_at="later"), ("resume_at: 'later' is not valid",)),
    (lambda app: app.pause("nightly", resume_at="2020-01-01"), ("resume_at: '2020-01-01'", "an instant in the future")),
    (lambda app: app.update_job("nightly", colour="red"), ("'colour' is not valid", "queue")),
    (lambda app: app.update_job("nightly", quue="x"), ("'quue' is not valid", "Did you mean 'queue'?")),
    (lambda app: app.update_job("nightly", queue=None), ("queue: None is not valid", "revert the job")),
    (lambda app: app.get("nonsense"), ("no execution with id 'nonsense'",)),
    (lambda app: app.get(5), ("execution: 5 is not valid; allowed: an execution, or its id",)),
    (lambda app: app.cancel(5), ("execution: 5 is not valid",)),
    (lambda app: app.wait("nonsense", timeout=1), ("no execution with id 'nonsense'",)),
    (lambda app: app.wait(None, timeout=1), ("execution: None is not valid", "the unique key is taken")),
    (lambda app: app.retry(None), ("execution: None is not valid",)),
    (lambda app: app.get("\ud800"), ("no execution with id '\\ud800'",)),
    (lambda app: app.logs("a\x00b"), ("no execution with id 'a\\x00b'",)),
    (lambda app: app.job_view("\ud800"), ("no job named '\\ud800'",)),
    (lambda app: app.job_view(["nightly"]), ("no job named",)),
    (lambda app: app.enqueue("\ud800"), ("no handler named '\\ud800'",)),
    (lambda app: app.trigger(None), ("no job named 'None'",)),
    (lambda app: app.executions(job="\ud800"), ("job: '\\ud800' is not valid",)),
    (lambda app: app.executions(tenant="\ud800"), ("tenant: '\\ud800' is not valid",)),
    (lambda app: app.executions(status=5), ("status: 5 is not valid", "completed")),
    (lambda app: app.executions(before=5), ("before: 5 is not valid",)),
    (lambda app: app.executions(trigger="whim"), ("trigger: 'whim' is not valid", "'schedule'")),
    (lambda app: app.audits("\ud800"), ("target: '\\ud800' is not valid",)),
    (lambda app: app.audits(limit=0), ("limit: 0 is not valid",)),
    (lambda app: app.start(rolles=["worker"]), ("unknown setting 'rolles'", "did you mean 'roles'?")),
    (lambda app: app.start(roles=["wroker"]), ("roles", "'wroker' is not valid")),
    (lambda app: app.start(queues=[]), ("queues", "at least one queue")),
    (lambda app: app.start(concurrency=0), ("concurrency", "0 is not valid")),
]


def shop(nodes: Nodes) -> Mainspring:
    app = nodes.app()

    @app.job("greet")
    async def greet(ctx: JobContext, name: str) -> None: ...

    app.job("nightly", cron="0 3 * * *")(lambda: None)
    return app


async def refuses(app: Mainspring, call: Callable[[Mainspring], Any], parts: tuple[str, ...]) -> None:
    before = [job_of(view) for view in await app.jobs()]
    with pytest.raises(MainspringError) as refused:
        await call(app)
    one_line(refused, *parts)
    assert [job_of(view) for view in await app.jobs()] == before
    assert await app.executions() == []
    assert await app.audits() == []


@pytest.mark.req("REG-6", "ENQ-6")
@pytest.mark.parametrize(("call", "parts"), CALLS, ids=named(CALLS))
async def test_a_wrong_call_is_refused_and_changes_nothing(
    memory_nodes: Nodes, call: Callable[[Mainspring], Any], parts: tuple[str, ...]
) -> None:
    app = shop(memory_nodes)
    await app.open()
    await refuses(app, call, parts)
    await app.close()


@pytest.mark.req("REG-6", "ENQ-6")
async def test_the_same_on_a_database(sqlite_nodes: Nodes) -> None:
    app = shop(sqlite_nodes)
    await app.open()
    for call, parts in CALLS:
        await refuses(app, call, parts)
    await app.close()


# --- addresses and settings ----------------------------------------------------------------------------------

SETTINGS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"database": "jobs.db"}, ("database_url", "'jobs.db' is not valid", "sqlite:///")),
    ({"database": ""}, ("database_url", "'' is not valid")),
    ({"database": "sqlite://jobs.db"}, ("'sqlite://jobs.db' is not valid", "sqlite:///jobs.db")),
    ({"database": "sqlite:///"}, ("'sqlite:///' is not valid",)),
    ({"database": "sqlite:///:memory:"}, ("memory://",)),
    ({"database": "sqlite:///x.db?mode=ro"}, ("a path without ? or #",)),
    ({"database": "memory://x"}, ("memory:// and nothing after it",)),
    ({"database": "postgre://app:geheim@localhost/x"}, ("postgre://app:***@", "Did you mean postgresql://?")),
    ({"database": "mysql://localhost/x"}, ("'mysql://localhost/x' is not valid", "sqlite:///file.db", "mongodb://")),
    ({"database": "postgresql://app:geheim@localhost:99999/x"}, ("app:***@", "a port")),
    ({"database": 5}, ("database: 5 is not valid", "a store")),
    ({"databse_url": "memory://"}, ("unknown setting 'databse_url'", "did you mean 'database_url'?")),
    ({"concurrency": 0}, ("concurrency", "0 is not valid", "1 to 1000")),
    ({"concurrency": "many"}, ("concurrency", "'many' is not valid")),
    ({"lease": "soon"}, ("lease", "'soon' is not valid")),
    ({"lease": "10s", "heartbeat": "9s"}, ("heartbeat", "at most half the lease")),
    ({"heartbeat": "20s"}, ("heartbeat", "at most half the lease (30s, the default)")),
    ({"stop_timeout": "1s", "stop_reserve": "2s"}, ("stop_reserve", "less than stop_timeout")),
    ({"poll_interval": 0}, ("poll_interval", "0 is not valid")),
    ({"poll_interval": "-1s"}, ("poll_interval", "'-1s' is not valid")),
    ({"wakeups": "sometimes"}, ("wakeups", "'sometimes' is not valid", "true or false")),
    ({"roles": ["cook"]}, ("roles", "'cook' is not valid", "'scheduler'")),
    ({"queues": ["a b"]}, ("queues", "'a b' is not valid")),
    ({"exclude": 5}, ("exclude", "5 is not valid")),
    ({"timezone": "Mars/Olympus"}, ("timezone", "'Mars/Olympus' is not valid")),
    ({"payload_limit": 5}, ("payload_limit", "5 is not valid", "1024")),
    ({"log_level": "LOUD"}, ("log_level", "'LOUD' is not valid", "'DEBUG'")),
    ({"enabled": "perhaps"}, ("enabled", "'perhaps' is not valid")),
    ({"jobs": "shop.jobs"}, ("jobs: 'shop.jobs' is not valid", "Write jobs=['shop.jobs']")),
    ({"jobs": [5]}, ("jobs: 5 is not valid", "'shop.jobs'")),
    ({"observers": [5]}, ("observers: 5 is not valid", "callable")),
    ({"observers": 5}, ("observers: 5 is not valid",)),
    ({"resources": ["db"]}, ("resources: ['db'] is not valid",)),
    ({"config_file": "no-such-file.toml"}, ("configuration file 'no-such-file.toml'", "No such file")),
]


@pytest.mark.req("OPS-2", "OPS-8")
@pytest.mark.parametrize(("options", "parts"), SETTINGS, ids=named(SETTINGS))
def test_a_wrong_address_or_setting_fails_at_once(options: dict[str, Any], parts: tuple[str, ...]) -> None:
    with pytest.raises(MainspringError) as refused:
        Mainspring(**{"database": "memory://", **options})
    one_line(refused, *parts)
    assert "geheim" not in str(refused.value)


@pytest.mark.req("OPS-2", "OPS-8")
def test_settings_of_environment_and_file_are_named_with_their_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSPRING_LEESE", "1m")
    with pytest.raises(ConfigurationError, match="MAINSPRING_LEESE is not a setting; did you mean MAINSPRING_LEASE"):
        Mainspring("memory://")
    monkeypatch.delenv("MAINSPRING_LEESE")
    monkeypatch.setenv("MAINSPRING_LEASE", "soon")
    with pytest.raises(InvalidValue, match=r"lease \(from MAINSPRING_LEASE\): 'soon' is not valid"):
        Mainspring("memory://")
    monkeypatch.delenv("MAINSPRING_LEASE")
    file = tmp_path / "mainspring.toml"
    file.write_text("concurency = 5\n")
    with pytest.raises(ConfigurationError, match=r"unknown setting 'concurency' \(from .*mainspring\.toml\)"):
        Mainspring("memory://", config_file=str(file))
    file.write_text("lease = [\n")
    with pytest.raises(ConfigurationError, match="is not valid TOML"):
        Mainspring("memory://", config_file=str(file))
