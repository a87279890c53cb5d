"""Cron expressions that are intervals: both fire at the same instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainspring.core.rules.importing.cron_intervals import converted
from mainspring.model.triggers import cron
from mainspring.model.triggers.interval import Every

pytestmark = pytest.mark.req("MIG-1")

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "minutes"),
    [
        ("0 * * * *", 60),
        ("0 0 * * *", 1440),
        ("0 */6 * * *", 360),
        ("@hourly", 60),
        ("@daily", 1440),
        ("15 * * * *", 60),
        ("*/15 * * * *", 15),
        ("30 2 * * *", 1440),
        ("0 0,12 * * *", 720),
        ("10,40 * * * *", 30),
        ("* * * * *", 1),
        ("*/30 * * * * *", 0.5),
    ],
)
def test_what_fires_at_equal_distances_becomes_an_interval(expression: str, minutes: float) -> None:
    found = converted(expression, "UTC", NOW)
    assert (found.minutes, found.reason) == (minutes, None)


@pytest.mark.parametrize(
    ("expression", "tz", "reason"),
    [
        ("*/7 * * * *", "UTC", "runs are 7 minutes apart, but 4 minutes from 00:56 to 01:00"),
        ("0 */5 * * *", "UTC", "runs are 5 hours apart, but 4 hours from 20:00 to 00:00"),
        ("0 9-17 * * *", "UTC", "runs are 1 hour apart, but 16 hours from 17:00 to 09:00"),
        ("0 9 * * 1-5", "UTC", "an interval cannot name days or months"),
        ("0 0 1 * *", "UTC", "an interval cannot name days or months"),
        ("0 2 * * *", "Europe/Paris", "the clocks of Europe/Paris change, next on 2026-03-29"),
        ("*/20 * * * *", "Australia/Lord_Howe", "the clocks of Australia/Lord_Howe change"),
    ],
)
def test_everything_else_stays_cron_with_the_reason(expression: str, tz: str, reason: str) -> None:
    found = converted(expression, tz, NOW)
    assert found.trigger == cron(expression)
    assert found.reason is not None
    assert found.reason.startswith(reason)


@pytest.mark.parametrize(
    ("expression", "tz", "next_run"),
    [
        ("0 * * * *", "Europe/Paris", "2026-03-01T13:00:00+00:00"),  # clocks that change by whole hours do not matter
        ("0 0 * * *", "Europe/Istanbul", "2026-03-01T21:00:00+00:00"),  # clocks that no longer change
        ("0 * * * *", "Asia/Kolkata", "2026-03-01T12:30:00+00:00"),
    ],
)
def test_the_phase_is_that_of_the_wall_clock(expression: str, tz: str, next_run: str) -> None:
    found = converted(expression, tz, NOW).trigger
    assert isinstance(found, Every)
    assert found.next_after(NOW) == datetime.fromisoformat(next_run)


fields = st.one_of(
    st.just("*"),
    st.integers(0, 23).map(str),
    st.integers(1, 23).map(lambda step: f"*/{step}"),
    st.sets(st.integers(0, 23), min_size=1, max_size=4).map(lambda found: ",".join(map(str, sorted(found)))),
)


@given(minute=fields, hour=fields, at=st.datetimes(datetime(2025, 1, 1), datetime(2030, 1, 1)))
@example(minute="0", hour="*/6", at=datetime(2026, 2, 28, 23, 59, 59))
@example(minute="*/7", hour="*", at=datetime(2026, 1, 1))
@settings(max_examples=150, deadline=None)
def test_cron_and_its_interval_fire_at_the_same_instants(minute: str, hour: str, at: datetime) -> None:
    expression = f"{minute} {hour} * * *"
    found, given_cron = converted(expression, "UTC", NOW), cron(expression, tz="UTC")
    now = at.replace(tzinfo=UTC)
    for _ in range(60):
        after = given_cron.next_after(now)
        assert after is not None
        if isinstance(found.trigger, Every):
            assert found.trigger.next_after(now) == after
        now = after
    if not isinstance(found.trigger, Every):
        assert found.reason is not None
        assert len(_gaps_of_two_days(expression)) > 1, "an interval could have said it"


def _gaps_of_two_days(expression: str) -> set[timedelta]:
    ticks, end = [NOW], NOW + timedelta(days=2)
    while ticks[-1] < end:
        after = cron(expression, tz="UTC").next_after(ticks[-1])
        assert after is not None
        ticks.append(after)
    return {later - earlier for earlier, later in pairwise(ticks[1:])}
