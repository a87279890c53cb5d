"""The names that type checkers know are those that the code accepts."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from mainspring.core.queries.queries import LEVELS
from mainspring.core.webhooks.events import EVENTS, EventName
from mainspring.model.bulk import ACTIONS, BulkVerb
from mainspring.model.execution import State, StateName
from mainspring.model.job import JobState, JobStatus
from mainspring.model.values.access import Role, RoleName
from mainspring.model.values.given import LogLevel, Weekday
from mainspring.model.values.reading import weekday
from mainspring.model.windows import NAMES, WindowName, days_ago, window_spec


def literals(alias: Any) -> set[str]:
    """The texts of a Literal, or of those in a union."""
    return {text for part in get_args(alias) for text in (get_args(part) or [part]) if type(text) is str}


@pytest.mark.parametrize(
    ("alias", "names"),
    [
        (EventName, set(EVENTS)),
        (BulkVerb, {verb for verbs in ACTIONS.values() for verb in verbs}),
        (StateName, {state.value for state in State}),
        (JobStatus, {state.value for state in JobState}),
        (RoleName, {role.value for role in Role}),
        (LogLevel, set(LEVELS)),
    ],
)
def test_each_name_is_known_to_type_checkers(alias: Any, names: set[str]) -> None:
    assert literals(alias) == names


def test_windows_and_weekdays_are_read_as_their_types_say() -> None:
    assert set(NAMES) <= literals(WindowName)
    for name in literals(WindowName) - {"none"}:
        assert window_spec(name)
    assert {weekday("day", name) for name in literals(Weekday)} == set(range(1, 8))
    assert window_spec(days_ago(90)) == "90_days_ago"
