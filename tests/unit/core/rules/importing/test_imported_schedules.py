"""The rules of imports that need no other scheduler: fields of cron, policies, names, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring import CatchUp, InvalidValue
from mainspring.core.rules.importing.cron_fields import DAY, HOUR, WEEKDAY, WEEKDAYS, CronFields, cron_triggers
from mainspring.core.rules.importing.cron_fields import field_values as values
from mainspring.core.rules.importing.fitting import fitted
from mainspring.core.rules.importing.policies import apscheduler_policy, celery_policy
from mainspring.core.rules.importing.rows import NeedsReview, handler_names, job_name, named_params, numbered

pytestmark = pytest.mark.req("MIG-1")

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
ALL = frozenset(range(60)), frozenset(range(24))


def test_fields_of_other_crons() -> None:
    assert values("hour", "22-2", HOUR) == {22, 23, 0, 1, 2}, "ranges wrap around"
    assert values("day", "5/10", DAY) == {5, 15, 25}
    assert values("day", "*/10", DAY) == {1, 11, 21, 31}
    assert values("weekday", "Monday, fri-sat", WEEKDAY, WEEKDAYS) == {1, 5, 6}
    for text in ("25", "1-", "noon", "*/0", ""):
        with pytest.raises(InvalidValue, match="hour"):
            values("hour", text, HOUR)


def test_day_of_month_and_weekday_must_both_match() -> None:
    days, monday = frozenset(range(1, 8)), frozenset({1})
    fields = CronFields(minutes=frozenset({0}), hours=frozenset({4}), days=days, weekdays=monday)
    ticks = cron_triggers(fields, "UTC")[0].ticks(NOW, NOW.replace(year=2027), 3)
    assert [tick.date().isoformat() for tick in ticks] == ["2026-12-07", "2027-01-04", "2027-02-01"]


def test_without_the_other_library_only_what_clock_changes_cannot_touch_is_exact() -> None:
    noon = CronFields(minutes=frozenset({0}), hours=frozenset({12}))
    night = CronFields(minutes=frozenset({30}), hours=frozenset({2}))
    always = CronFields(minutes=ALL[0], hours=ALL[1])
    found = {
        (name, tz): fitted(cron_triggers(fields, tz), None, tz, NOW, "Celery").difference
        for name, fields in (("noon", noon), ("night", night), ("always", always))
        for tz in ("UTC", "Europe/Berlin")
    }
    unknown = {case for case, difference in found.items() if difference}
    assert unknown == {("night", "Europe/Berlin"), ("always", "Europe/Berlin")}
    assert "2027-03-28: Celery is not installed here" in str(found["night", "Europe/Berlin"])


@pytest.mark.parametrize(
    ("grace", "coalesce", "instances", "options"),
    [
        (1, True, 1, {"overlap": "skip"}),
        (30, True, 1, {"overlap": "skip", "grace": 30.0}),
        (90, True, 1, {"overlap": "skip", "missed": CatchUp("latest", max_age=90)}),
        (90, False, 1, {"overlap": "skip", "grace": 90.0}),
        (None, True, 3, {"overlap": "allow", "overlap_limit": 3, "missed": "latest"}),
        (None, False, 1, {"overlap": "skip", "missed": "all"}),
    ],
)
def test_the_policy_of_apscheduler(
    grace: int | None, coalesce: bool, instances: int, options: Mapping[str, Any]
) -> None:
    """Of a job that runs every minute."""
    found, changes = apscheduler_policy(grace, coalesce, instances, 60.0)
    assert found == options
    assert bool(changes) == (grace is None and not coalesce), "at most 100 are caught up"


def test_the_options_of_celery() -> None:
    options, changes = celery_policy({"queue": "slow", "time_limit": 60, "exchange": None, "shadow": "x"}, deadline=300)
    assert options == {
        "overlap": "allow",
        "missed": CatchUp("latest", max_age=300),
        "queue": "slow",
        "timeout": 60.0,
    }
    assert changes == []
    kept, changes = celery_policy({"queue": "two words", "countdown": 5, "soft_time_limit": 9, "link": "other"})
    assert kept == {"overlap": "allow", "missed": "latest"}
    assert [change.partition("=")[0].removeprefix("the option ") for change in changes] == [
        "queue",
        "countdown",
        "soft_time_limit",
        "link",
    ]


def test_names() -> None:
    assert (job_name("Täglich: 3 Uhr!"), job_name("?"), job_name("x" * 200)) == ("T-glich-3-Uhr", "job", "x" * 100)
    assert list(numbered(["a", "b", "a", "a"])) == ["a", "b", "a-2", "a-3"]
    assert handler_names("refresh") == ("refresh",)


def test_arguments_by_position_get_the_names_of_the_handler() -> None:
    assert named_params((1, 2), {"c": 3}, ["a", "b", "c"]) == {"a": 1, "b": 2, "c": 3}
    with pytest.raises(NeedsReview, match="--app"):
        named_params((1,), {}, None)
    with pytest.raises(NeedsReview, match="takes a"):
        named_params((1, 2), {}, ["a"])
    with pytest.raises(InvalidValue, match="args does not give already"):
        named_params((1,), {"a": 2}, ["a"])
