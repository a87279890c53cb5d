"""Dead-man's switches: URLs that are requested when a job starts, succeeds or fails, so that an outside service notices
when that stops happening. These rules check declarations and choose the URL of an event; `observe.pings` requests it.

>>> check_ping("https://hc.example/abc")
{'success': 'https://hc.example/abc'}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...model.errors import InvalidValue
from ...model.events import AttemptEnded, Rescued, Started
from ...model.execution import ExecutionRow, State
from ...model.time.instants import Micros
from ...model.values.web_address import NOT_SHOWN, web_address

WHEN = ("success", "failure", "start")


def check_ping(value: Any) -> dict[str, str]:
    """One address, for successes; or addresses by `success`, `failure` and `start`."""
    given = {"success": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping) or not given:
        raise InvalidValue("ping", NOT_SHOWN, f"an address, or addresses by {', '.join(WHEN)}")
    if not all(when in WHEN for when in given):
        raise InvalidValue("ping", NOT_SHOWN, f"addresses by {', '.join(WHEN)}, and nothing else")
    return {when: web_address("ping", url) for when, url in given.items()}


def address_of(event: Started[ExecutionRow, Micros] | AttemptEnded[ExecutionRow] | Rescued[ExecutionRow]) -> str | None:
    """The address for this event. An attempt that will be retried has neither succeeded nor failed."""
    execution = event.execution
    if not names_addresses(execution):
        return None
    when = "start" if isinstance(event, Started) else _ENDINGS.get(event.state)
    return dict(execution.rules.ping).get(when or "")


def names_addresses(execution: ExecutionRow) -> bool:
    """Nearly always False; then its policy need not be decoded."""
    return '"ping"' in execution.policy


_ENDINGS = {State.COMPLETED: "success", State.SKIPPED: "success", State.FAILED: "failure", State.PARTIAL: "failure"}
