"""Options of a declaration: exact values and defaults, refusals at registration, placeholders filled at start-up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mainspring.config.settings import SETTINGS
from mainspring.core.declaring.context import JobContext
from mainspring.core.declaring.job_specs import JobDefaults
from mainspring.core.declaring.options import HTTP_FIELDS, OPTIONS, JobOptions
from mainspring.core.declaring.registry import Registry
from mainspring.core.declaring.synonyms import SYNONYMS
from mainspring.core.rules.new_execution import tenant_policy
from mainspring.model.calendars.hours import Hours
from mainspring.model.errors import ConfigurationError, InvalidDeclaration, InvalidValue, nearby
from mainspring.model.execution import decode_policy, encode_policy
from mainspring.model.job import JobSpec, effective_spec, encode_spec
from mainspring.model.limits import Limit
from mainspring.model.policies import CatchUp, Retention, Retry, Unique
from mainspring.model.triggers import any_of, cron, daily_at, encode_trigger, every, monthly_at, once, weekly_at
from mainspring.model.windows import offset


def crawl(ctx: JobContext, url: str = "http://localhost") -> None: ...


def remind(ctx: JobContext, shift_id: str) -> None: ...


async def sync_shop() -> None: ...


def declared(*args: Any, lookup: Any = None, **options: Any) -> JobSpec:
    """The specification of a single job declared with these options."""
    registry = Registry()
    registry.declare("job", *(args or (crawl,)), **options)
    ((name, spec),) = registry.declared_jobs(lookup)
    assert name == "job"
    return spec


def test_the_table_agrees_with_the_types_the_specification_and_the_settings() -> None:
    assert list(OPTIONS) == list(JobOptions.__annotations__)
    stored = {option.field for option in OPTIONS.values() if option.field}
    assert stored == set(JobSpec.__struct_fields__) - {"handler", "feeds"}
    for option in OPTIONS.values():
        assert not option.setting or option.setting in SETTINGS
        assert not option.needs or option.needs in OPTIONS
        assert option.default_text
        if option.check is not None and option.field == option.name:
            default = getattr(JobSpec(handler="crawl"), option.name)
            assert default is None or option.check(option.name, default) == default


def test_each_field_of_a_request_sets_one_option() -> None:
    assert {field.option for field in HTTP_FIELDS.values()} <= set(OPTIONS)
    assert [name for name, field in HTTP_FIELDS.items() if name != field.option] == [
        "schedule",
        "schedule_time",
        "timezone",
        "max_retries",
        "retry_backoff_seconds",
    ]


def test_synonyms_are_no_options_and_mean_options() -> None:
    assert OPTIONS.keys().isdisjoint(SYNONYMS)
    assert set(SYNONYMS.values()) <= set(OPTIONS)


@pytest.mark.req("EXE-4", "WIN-1")
def test_defaults_of_enqueued_and_of_scheduled_work() -> None:
    enqueued = declared()
    assert (enqueued.overlap, enqueued.max_attempts, enqueued.retry) == ("allow", 10, Retry("queue"))
    assert (enqueued.missed, enqueued.trigger, enqueued.tz, enqueued.queue) == ("skip", None, "UTC", "default")
    scheduled = declared(cron="0 0 2 * * *")
    assert (scheduled.overlap, scheduled.max_attempts, scheduled.missed) == ("skip", 3, "skip")


@pytest.mark.req("WIN-2")
def test_a_one_shot_is_not_lost_by_a_deploy() -> None:
    assert declared(trigger=once("2026-01-01T00:00:00Z")).missed == "latest"
    assert declared(trigger=once("2026-01-01T00:00:00Z"), missed="skip").missed == "skip"


@pytest.mark.req("TIM-10")
def test_the_interval_pair_wins_over_cron() -> None:
    assert declared(cron="0 0 * * *", interval_minutes=5).trigger == encode_trigger(every(minutes=5))
    spec = declared(cron="0 0 * * *", interval_minutes=6, interval_type="hours")
    assert spec.trigger == encode_trigger(every(hours=6))


@pytest.mark.parametrize(
    ("options", "field", "expected"),
    [
        ({"timeout": timedelta(minutes=1)}, "timeout", 60.0),
        ({"grace": 0}, "grace", 0.0),
        ({"retry": "patient"}, "retry", Retry("patient")),
        ({"non_retryable": ValueError}, "non_retryable", ("ValueError",)),
        (
            {"non_retryable": [InvalidValue, "KeyError"]},
            "non_retryable",
            ("mainspring.model.errors.InvalidValue", "KeyError"),
        ),
        ({"overlap": "allow", "overlap_limit": 3, "cron": "@daily"}, "overlap_limit", 3),
        ({"window": "yesterday"}, "window", "previous_day"),
        ({"window": offset("2h", "1h")}, "window", {"offset": ["2h", "1h"]}),
        ({"retention": {"newest": 5}}, "retention", Retention(newest=5)),
        ({"tz": "Europe/Istanbul"}, "tz", "Europe/Istanbul"),
        ({"trigger": cron("@daily", tz="Europe/Istanbul")}, "tz", "Europe/Istanbul"),
        ({"description": "Mine"}, "description", "Mine"),
        ({"metadata": {"team": "web"}}, "metadata", {"team": "web"}),
        ({"owner": "team-web"}, "owner", "team-web"),
        ({"tags": "nightly"}, "tags", ("nightly",)),
        ({"tags": ["nightly", "pii", "nightly"]}, "tags", ("nightly", "pii")),
        ({"params": {"url": "u"}}, "params", {"url": "u"}),
        ({"priority": -5}, "priority", -5),
        ({"queue": None, "max_attempts": None}, "queue", "default"),
        ({"isolation": "process"}, "isolation", "process"),
        ({"isolation": "process", "max_cpu": "5m"}, "max_cpu", 300.0),
        ({"isolation": "process", "max_memory": "512MB"}, "max_memory", 512_000_000),
        ({"isolation": "process", "max_address_space": "2GiB"}, "max_address_space", 2 * 1024**3),
    ],
)
def test_options_become_exact_values(options: dict[str, Any], field: str, expected: Any) -> None:
    spec = declared(**options)
    assert getattr(spec, field) == expected
    assert effective_spec(encode_spec(spec), "{}") == spec


@pytest.mark.req("REG-11")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cron": "0 25 * * *"}, "cron hour: '25' is not valid; allowed: 0-23"),
        ({"cron": "0 0 31 2 *"}, "cron day of month: '31' is not valid"),
        ({"cron": "* * * * * * *"}, "cron: "),
        ({"cron": every(minutes=1)}, "allowed: a cron expression as text. Pass '@every 1m' as trigger="),
        ({"trigger": "* * * * *"}, "Pass a cron expression as cron='* * * * *'"),
        ({"trigger": 5}, "trigger: 5 is not valid; allowed: a trigger such as every(minutes=30)"),
        ({"trigger": every(minutes=1), "cron": "* * * * *"}, "allowed: either trigger= or cron=. Remove one of them"),
        ({"trigger": every(minutes=1), "interval_minutes": 1}, "either trigger= or interval_minutes="),
        ({"interval_minutes": 0}, "interval_minutes: 0 is not valid"),
        ({"interval_minutes": 5, "interval_type": "weeks"}, "interval_type: 'weeks' is not valid; allowed: 'minutes'"),
        ({"interval_type": "hours"}, "allowed: a unit together with interval_minutes="),
        ({"tz": "Europe/Istanbl"}, "Did you mean 'Europe/Istanbul'?"),
        ({"tz": "UTC", "trigger": cron("@daily", tz="Europe/Istanbul")}, "the zone of the trigger, 'Europe/Istanbul'"),
        ({"queue": "a b"}, "queue: 'a b' is not valid"),
        ({"priority": "high"}, "priority: 'high' is not valid; allowed: a whole number from -32768 to 32767"),
        ({"max_attempts": 0}, "max_attempts: 0 is not valid; allowed: a whole number from 1 to 1000"),
        ({"retry": "often"}, "retry: 'often' is not valid; allowed: a Retry(...), or 'queue', 'tenant' or 'patient'"),
        ({"retry": 3}, "The number of attempts is max_attempts=3"),
        ({"timeout": -1}, "timeout: -1 is not valid; allowed: a positive, finite duration"),
        ({"timeout": 0}, "timeout: 0 is not valid; allowed: a duration above zero"),
        ({"grace": "soon"}, "grace: 'soon' is not valid; allowed: seconds, a timedelta, or text"),
        ({"non_retryable": [5]}, "non_retryable: 5 is not valid; allowed: exception classes, or their names"),
        ({"non_retryable": ["no name"]}, "non_retryable: 'no name' is not valid"),
        ({"overlap": "wait"}, "overlap: 'wait' is not valid; allowed: 'skip', 'queue', 'allow' or 'cancel_running'"),
        ({"overlap": "queue", "overlap_limit": 2}, "overlap_limit: 2 is not valid; allowed: no limit together with"),
        ({"overlap_limit": 0}, "overlap_limit: 0 is not valid; allowed: a whole number from 1 to 1000"),
        ({"missed": "most"}, "missed: 'most' is not valid; allowed: 'skip'"),
        ({"missed_while_paused": "x"}, "missed_while_paused: 'x' is not valid"),
        ({"window": "yesteday"}, "Did you mean 'yesterday'?"),
        ({"enabled": "no"}, "enabled: 'no' is not valid; allowed: True or False"),
        ({"schedule_enabled": 1}, "schedule_enabled: 1 is not valid; allowed: True or False"),
        ({"retention": {"newst": 1}}, "allowed: fields of Retention, which has no 'newst'"),
        ({"retention": {"newest": -1}}, "retention.newest: -1 is not valid"),
        ({"retention": 5}, "retention: 5 is not valid; allowed: a Retention(...)"),
        ({"params": {"uri": 1}}, "params has no parameter 'uri'; did you mean 'url'?"),
        ({"params": {"url": 1}}, "params.url: 1 is not valid; allowed: str"),
        ({"params": 5}, "params: 5 is not valid"),
        ({"metadata": {"a": {1}}}, "metadata.a: {1} is not valid"),
        ({"metadata": []}, "metadata: [] is not valid; allowed: an object (dict)"),
        ({"owner": 5}, "owner: 5 is not valid; allowed: text of 1 to 200 characters"),
        ({"tags": 5}, "tags: 5 is not valid; allowed: up to 20 texts"),
        ({"tags": [""]}, "tags: '' is not valid; allowed: text of 1 to 100 characters"),
        ({"tags": list("abcdefghijklmnopqrstu")}, "allowed: at most 20 of them"),
        ({"description": 5}, "description: 5 is not valid; allowed: text"),
        ({"isolation": "fork"}, "isolation: 'fork' is not valid; allowed: 'thread' or 'process'"),
        ({"max_cpu": 5}, 'max_cpu: 5 is not valid; allowed: nothing without isolation="process". Set isolation='),
        ({"isolation": "thread", "max_memory": "1GB"}, 'allowed: nothing without isolation="process"'),
        ({"isolation": "process", "max_memory": 512}, 'A number without a unit counts bytes: write "512MB"'),
        ({"isolation": "process", "max_address_space": "2 gigs"}, "max_address_space: '2 gigs' is not valid"),
        ({"allow_override": "yes"}, "allow_override: 'yes' is not valid; allowed: True or False"),
        ({"time_out": 5}, "option: 'time_out' is not valid; allowed: a known option. Did you mean 'timeout'?"),
        ({"cron": "${reports"}, """cron: '${reports' is not valid; allowed: "${key}" or "${key:default}\""""),
    ],
)
def test_every_bad_value_is_refused_at_registration(options: dict[str, Any], message: str) -> None:
    registry = Registry()
    with pytest.raises(InvalidValue) as raised:
        registry.declare("job", crawl, **options)
    assert message in str(raised.value)
    assert not registry.names
    assert not registry.declared_jobs()


@pytest.mark.req("EXE-10")
def test_a_coroutine_takes_a_process_but_no_thread() -> None:
    assert declared(sync_shop, isolation="process").isolation == "process"
    with pytest.raises(InvalidValue, match="A coroutine runs on the event loop"):
        declared(sync_shop, isolation="thread")


@pytest.mark.req("EXE-9")
def test_the_default_isolation_moves_plain_functions_only() -> None:
    registry = Registry(default_isolation="process")
    registry.declare("crawl", crawl, max_memory="1GB")
    registry.declare("sync", sync_shop)
    registry.declare("remind", remind, isolation="thread")
    jobs = dict(registry.declared_jobs(defaults=JobDefaults(isolation="process")))
    assert [jobs[name].isolation for name in ("crawl", "sync", "remind")] == ["process", None, "thread"]
    with pytest.raises(InvalidValue, match='max_cpu: 5 is not valid; allowed: nothing without isolation="process"'):
        registry.declare("other", sync_shop, max_cpu=5)


@pytest.mark.req("EXE-10")
def test_the_limits_reach_each_execution_and_each_tenant() -> None:
    spec = declared(isolation="process", max_cpu=5, max_memory="1GB", max_address_space="4GB", tenants=["acme"])
    of_tenant = decode_policy(tenant_policy(encode_policy(spec.run_policy()), with_parent=True))
    for rules in (spec.run_policy(), of_tenant):
        assert (rules.isolation, rules.max_cpu, rules.max_memory) == ("process", 5.0, 10**9)
        assert rules.max_address_space == 4 * 10**9


@pytest.mark.req("REG-11")
@pytest.mark.parametrize(
    "make",
    [
        lambda: daily_at("25:00"),
        lambda: weekly_at(8, "03:00"),
        lambda: monthly_at(32, "03:00"),
        lambda: every(seconds=-1),
        lambda: any_of(),
    ],
)
def test_bad_triggers_never_reach_a_declaration(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidValue):
        make()


def test_an_unknown_option_suggests_the_right_one() -> None:
    with pytest.raises(InvalidValue, match="Did you mean 'timeout'"):
        Registry().declare("job", crawl, time_out=5)  # type: ignore[call-arg]


def test_the_parameters_of_a_scheduled_job_must_be_complete() -> None:
    with pytest.raises(InvalidDeclaration, match=r"params\.shift_id is missing"):
        declared(remind, cron="@daily")
    assert declared(remind, cron="@daily", params={"shift_id": "1"}).params == {"shift_id": "1"}
    assert declared(remind).params == {}  # on demand: whoever enqueues it says


@pytest.mark.req("REG-13")
def test_a_disabled_job_keeps_its_trigger_but_never_ticks() -> None:
    for options in ({"enabled": False}, {"schedule_enabled": False}):
        spec = declared(cron="@daily", **options)
        assert spec.trigger is not None
        assert not spec.enabled
    assert declared(cron="@daily", schedule_enabled=True).enabled


# ---------------------------------------------------------------- placeholders


@pytest.mark.req("REG-7")
def test_placeholders_are_filled_from_the_settings() -> None:
    values = {"reports.cron": "0 0 3 * * *", "q": "web", "n": "5", "on": "off", "t": "90s", "zone": "Europe/Istanbul"}
    spec = declared(
        lookup=values.get,
        cron="${reports.cron}",
        tz="${zone}",
        queue="${q}-${q}",
        priority="${n}",
        max_attempts="${n}",
        enabled="${on}",
        timeout="${t}",
        overlap="${o:queue}",
        description="costs ${n}",
        params={"url": "${q}"},
    )
    assert spec.trigger == encode_trigger(cron("0 0 3 * * *"))
    assert (spec.tz, spec.queue, spec.priority, spec.max_attempts) == ("Europe/Istanbul", "web-web", 5, 5)
    assert (spec.enabled, spec.timeout, spec.overlap) == (False, 90.0, "queue")
    tenants = declared(lookup={"n": "3"}.get, tenants=["acme"], tenant_concurrency="${n}", tenant_max_attempts="${n}")
    assert (tenants.tenant_concurrency, tenants.tenant_max_attempts) == (3, 3)
    assert (spec.description, spec.params) == ("costs ${n}", {"url": "${q}"})  # the user's own text


@pytest.mark.req("REG-7")
def test_the_environment_is_asked_second_and_the_default_last(monkeypatch: pytest.MonkeyPatch) -> None:
    assert declared(queue="${app.work-queue:slow}").queue == "slow"
    monkeypatch.setenv("APP_WORK_QUEUE", "fast")
    assert declared(queue="${app.work-queue:slow}").queue == "fast"
    assert declared(lookup=lambda key: "set", queue="${app.work-queue:slow}").queue == "set"


@pytest.mark.req("REG-7")
def test_an_unknown_key_is_an_error_at_start_up_only() -> None:
    registry = Registry()
    registry.declare("report", crawl, cron="${reports.cron}")
    with pytest.raises(ConfigurationError) as raised:
        registry.declared_jobs(lambda key: None)
    message = str(raised.value)
    assert message.startswith(f"job 'report' ({nearby(__file__)}:")
    assert "cron refers to ${reports.cron}, which has no value; set it in the settings or as REPORTS_CRON" in message


@pytest.mark.req("REG-7")
def test_a_lookup_may_raise_for_unknown_keys() -> None:
    def lookup(key: str) -> str:
        raise ConfigurationError(f"${{{key}}} has no value")

    assert declared(lookup=lookup, queue="${q:web}").queue == "web"
    with pytest.raises(ConfigurationError, match=r"job 'job' .* \$\{q\} has no value"):
        declared(lookup=lookup, queue="${q}")


@pytest.mark.req("REG-7", "REG-11")
def test_a_configured_value_is_checked_at_start_up_and_named() -> None:
    with pytest.raises(InvalidValue, match=r"job 'job' \(.*\): cron hour: '61' is not valid.*It comes from a setting"):
        declared(lookup=lambda key: "0 61 * * *", cron="${reports.cron}")
    with pytest.raises(InvalidValue, match="priority: 'high' is not valid"):
        declared(lookup=lambda key: "high", priority="${p}")


@pytest.mark.req("REG-7", "REG-11")
def test_other_options_are_checked_at_once_beside_placeholders() -> None:
    with pytest.raises(InvalidValue, match="timeout: -1"):
        Registry().declare("job", crawl, cron="${c}", timeout=-1)
    with pytest.raises(InvalidDeclaration, match="shift_id is missing"):
        Registry().declare("job", remind, cron="${c}")
    assert Registry().declare("job", crawl, cron="${c}", overlap="${o}", overlap_limit=3)


@pytest.mark.req("TIM-3")
def test_the_zone_of_the_application_is_the_default() -> None:
    registry = Registry()
    registry.declare("here", crawl, cron="@daily")
    registry.declare("there", sync_shop, cron="@daily", tz="America/New_York")
    zones = {name: spec.tz for name, spec in registry.declared_jobs(None, "Europe/Istanbul")}
    assert zones == {"here": "Europe/Istanbul", "there": "America/New_York"}


@pytest.mark.req("FLW-3")
@pytest.mark.parametrize(
    ("option", "fields", "words"),
    [
        (Limit, {"key": "api", "concurency": 3}, "Did you mean 'concurrency'?"),
        (Limit, {"rate": "50/s"}, "one that names its key"),
        (Retry, {"inital": "1s"}, "Did you mean 'initial'?"),
        (Retry, {"initial": "patiant"}, "'queue', 'tenant' or 'patient'"),
        (CatchUp, {"rule": "all", "max_run": 5}, "Did you mean 'max_runs'?"),
        (Retention, {"day": 5}, "Did you mean 'days'?"),
        (Unique, {"enqueue": "key"}, "Did you mean 'enqueued'?"),
        (Hours, {"time": "09:00-17:00"}, "Did you mean 'times'?"),
    ],
)
def test_a_misspelt_field_of_an_option_is_named(option: Any, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        option(**fields)
    assert words in str(refused.value)
