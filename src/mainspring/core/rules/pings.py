"""Dead-man's switches: URLs that are requested when a job starts, succeeds or fails, so that an outside service notices
when that stops happening. These rules check declarations and choose the URL of an event; `observe.pings` requests it.

>>> check_ping("https://hc.example/abc")
{'success': 'https://hc.example/abc'}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ...model.errors import InvalidValue
from ...model.events import AttemptEnded, Rescued, Started
from ...model.execution import ExecutionRow, State
from ...model.time.instants import Micros

WHEN = ("success", "failure", "start")
LONGEST = 1_000
HIDDEN = "(not shown)"


def check_ping(value: Any) -> dict[str, str]:
    """One address, for successes; or addresses by `success`, `failure` and `start`."""
    given = {"success": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping) or not given:
        raise InvalidValue("ping", HIDDEN, f"an address, or addresses by {', '.join(WHEN)}")
    if not all(when in WHEN for when in given):
        raise InvalidValue("ping", HIDDEN, f"addresses by {', '.join(WHEN)}, and nothing else")
    return {when: _address(url) for when, url in given.items()}


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


def _address(url: Any) -> str:
    """An error does not repeat the address: it may hold secrets."""
    text = url if isinstance(url, str) and url.isascii() and url.isprintable() and " " not in url else ""
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and len(text) <= LONGEST
        fits = fits and parts.username is None and (parts.port is None or parts.port > 0)
    except ValueError:
        fits = False
    if not fits:
        raise InvalidValue("ping", HIDDEN, "an address such as https://hc.example/abc, without user or password")
    return text
