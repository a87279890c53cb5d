"""Sections of the configuration file, and what they mean to jobs that do not say otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mainspring import JobContext, Mainspring, Retry, every, limited
from mainspring.config.load import SECTIONS, load
from mainspring.config.settings import SETTINGS
from mainspring.model.errors import ConfigurationError, InvalidValue, MainspringError
from mainspring.model.job import JobSpec
from mainspring.testing import harness

pytestmark = pytest.mark.req("OPS-2")

WHOLE = """
lease = "1m"
[context]
username = "night-shift"
channel = "batch"
[date_range]
timezone = "Europe/Paris"
max_span = "31d"
[retry]
max_attempts = 5
policy = "patient"
[lock]
backend = "redis"
redis_url = "redis://localhost:6379/0"
[tenant]
concurrency = 4
max_attempts = 2
retry = { initial = "1s", multiplier = 3, max = "10s" }
continue_on_failure = false
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mainspring.toml"


def test_every_section_sets_what_it_names(file: Path) -> None:
    file.write_text(WHOLE)
    settings = load({}, {}, None)
    assert (settings.username, settings.channel, settings.timezone) == ("night-shift", "batch", "Europe/Paris")
    assert (settings.locks, settings.redis_url, settings.lease) == ("redis", "redis://localhost:6379/0", 60.0)
    assert (settings.retry_max_attempts, settings.retry_policy) == (5, Retry("patient"))
    assert (settings.tenant_concurrency, settings.tenant_max_attempts) == (4, 2)
    assert (settings.tenant_retry, settings.window_max_span) == (Retry("1s", 3, "10s"), 31 * 86_400.0)
    assert settings.tenant_continue_on_failure is False
    assert {name for keys in SECTIONS.values() for name in keys.values()} <= set(SETTINGS)


def test_sections_stand_in_pyproject_too_and_the_environment_wins(file: Path) -> None:
    (file.parent / "pyproject.toml").write_text("[tool.mainspring.context]\nusername = 'a'\nchannel = 'b'\n")
    settings = load({}, {"MAINSPRING_CHANNEL": "c", "MAINSPRING_TENANT_MAX_ATTEMPTS": "7"}, None)
    assert (settings.username, settings.channel, settings.tenant_max_attempts) == ("a", "c", 7)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tenant]\nmax_atempts = 2", "'max_atempts' in section [tenant] (from mainspring.toml); did you mean"),
        ("[context]\nwho = 'x'", "known are username, channel"),
        ("[tenants]\nretry = 'tenant'", "did you mean 'tenant'?"),
        ("tenant = 3", "a section [tenant] with concurrency, max_attempts"),
        ("username = 'a'\n[context]\nusername = 'b'", "username is set twice: in mainspring.toml, and in mainspring"),
        ("[tenant]\nmax_attempts = 0", "[tenant] max_attempts"),
        ("[tenant]\nretry = 'never'", "[tenant] retry"),
        ("[tenant]\nretry = { first = '5s' }", "initial, multiplier, max, jitter"),
        ("[tenant]\nretry = { multiplier = 0 }", "[tenant] retry).multiplier"),
        ("[date_range]\nmax_span = 'long'", "[date_range] max_span"),
        (
            "[date_range]\ntype = 'tomorrow'",
            "[date_range] type): 'tomorrow' is not valid; allowed: 'yesterday', 'today'",
        ),
        ("[date_range]\ntype = 'custom'", "[date_range] type) needs date_range_offset_days, such as 2"),
        ("[date_range]\noffset_days = 2", "allowed: no days without date_range_type custom"),
        ("[date_range]\ntype = 'custom'\noffset_days = -1", "[date_range] offset_days): -1 is not valid"),
        ("[date_range]\ntype = 'custom'\noffset_days = 1.5", "a whole number from 0"),
        ("[lock]\ntimeout = 'never'", "[lock] timeout): 'never' is not valid"),
        ("[lock]\nbackend = 'redis'", "needs redis_url"),
        ("audit_retention = '1h'", 'at least "1d", or "forever"'),
        ("audit_retention = 'long'", 'or "forever"'),
    ],
)
def test_what_is_wrong_is_named_with_its_section(file: Path, text: str, told: str) -> None:
    file.write_text(text)
    with pytest.raises(MainspringError) as refused:
        load({}, {}, None)
    assert isinstance(refused.value, ConfigurationError | InvalidValue)
    assert told in str(refused.value)


def test_audit_records_are_kept_for_400_days_or_as_long_as_is_said() -> None:
    assert load({}, {}, "/dev/null").audit_retention == 400 * 86_400
    assert load({}, {"MAINSPRING_AUDIT_RETENTION": "forever"}, "/dev/null").audit_retention is None
    assert load({"audit_retention": "30d"}, {}, "/dev/null").audit_retention == 30 * 86_400


# --- jobs ---------------------------------------------------------------------------------------------------------


def _specs(file: Path) -> dict[str, JobSpec]:
    app = Mainspring("memory://", config_file=str(file))
    app.job("plain")(lambda: None)
    app.job("ticks", trigger=every(hours=1), window="previous_day")(lambda: None)
    app.job("tenants", tenants=["a"])(lambda: None)
    app.job("own", max_attempts=9, retry="queue", tenants=["a"], tenant_concurrency=1)(lambda: None)
    app.job("most", tenants=["a"], tenant_max_attempts=8, tenant_retry="tenant", continue_on_failure=True)(lambda: None)
    app.job("month", trigger=every(hours=1), window=limited("previous_day", max_span="90d"))(lambda: None)
    return dict(app._runtime._declarations.jobs(app.settings))


@pytest.mark.req("TEN-2", "TEN-3", "EXE-4", "WIN-4")
def test_jobs_follow_the_settings_unless_they_say_otherwise(file: Path) -> None:
    file.write_text("".join(WHOLE.partition("[lock]")[::2]).replace('backend = "redis"\nredis_url', "#"))
    told = _specs(file)
    assert (told["plain"].max_attempts, told["ticks"].max_attempts, told["own"].max_attempts) == (5, 5, 9)
    assert (told["plain"].retry, told["own"].retry) == (Retry("patient"), Retry("queue"))
    assert (told["tenants"].tenant_max_attempts, told["tenants"].tenant_concurrency) == (2, 4)
    assert (told["tenants"].tenant_retry, told["tenants"].continue_on_failure) == (Retry("1s", 3, "10s"), False)
    assert (told["own"].tenant_max_attempts, told["own"].tenant_concurrency) == (9, 1)
    assert told["own"].tenant_retry == Retry("queue")
    assert (told["most"].tenant_max_attempts, told["most"].continue_on_failure) == (8, True)
    assert told["ticks"].window == {"window": "previous_day", "max_span": "31d"}
    assert told["month"].window == {"window": "previous_day", "max_span": "90d"}
    assert told["ticks"].tz == "Europe/Paris"


@pytest.mark.req("WIN-3")
@pytest.mark.parametrize(
    ("text", "environ", "expected"),
    [
        ("", {}, None),
        ("type = 'yesterday'", {}, "previous_day"),
        ("type = 'today'", {}, "today"),
        ("type = 'custom'\noffset_days = 0", {}, "today"),
        ("type = 'custom'\noffset_days = 1", {}, "previous_day"),
        ("type = 'custom'\noffset_days = 3", {}, "3_days_ago"),
        ("", {"MAINSPRING_DATE_RANGE_TYPE": "Custom", "MAINSPRING_DATE_RANGE_OFFSET_DAYS": "7"}, "7_days_ago"),
        (
            "type = 'yesterday'\nmax_span = '31d'",
            {},
            {"window": "previous_day", "max_span": "31d"},
        ),
    ],
)
def test_the_date_range_is_the_window_of_jobs_that_name_none(
    file: Path, monkeypatch: pytest.MonkeyPatch, text: str, environ: dict[str, str], expected: Any
) -> None:
    file.write_text(f"[date_range]\n{text}\n")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    app = Mainspring("memory://", config_file=str(file))
    app.job("plain")(lambda: None)
    app.job("ticks", cron="@daily")(lambda: None)
    app.job("hourly", cron="@hourly", window="previous_hour")(lambda: None)
    app.job("without", cron="@daily", window="none")(lambda: None)
    windows = {name: spec.window for name, spec in app._runtime._declarations.jobs(app.settings)}
    assert (windows["plain"], windows["ticks"], windows["without"]) == (expected, expected, None)
    assert "previous_hour" in str(windows["hourly"])


@pytest.mark.req("WIN-3")
async def test_a_run_covers_the_date_range_of_the_configuration() -> None:
    app = Mainspring("memory://", date_range_type="custom", date_range_offset_days=2, timezone="Europe/Istanbul")
    seen: list[tuple[str, str]] = []

    @app.job("summary", cron="0 2 * * *")
    async def summary(ctx: JobContext) -> None:
        seen.append((str(ctx.begin_date), str(ctx.end_date)))

    async with harness(app, start="2026-11-15T12:00Z") as kit:
        await kit.advance("1d")
        await app.trigger("summary")
        await kit.run_until_idle()
        assert (await app.windows("summary", "2026-11-14", "2026-11-15")).counts["done"] == 1
    assert seen == [("2026-11-14 00:00:00+03:00", "2026-11-15 00:00:00+03:00")] * 2


def test_without_them_jobs_are_as_they_were(file: Path) -> None:
    file.write_text("")
    told = _specs(file)
    assert (told["plain"].max_attempts, told["ticks"].max_attempts, told["plain"].retry) == (10, 3, Retry("queue"))
    assert (told["tenants"].tenant_max_attempts, told["tenants"].tenant_retry) == (3, Retry("tenant"))
    assert (told["tenants"].tenant_concurrency, told["ticks"].window) == (None, "previous_day")
