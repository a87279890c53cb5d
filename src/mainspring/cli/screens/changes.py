"""Words for changes: what they concern, and how its fields changed. Shared by `mainspring changes` and `audit`."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from ...core.render.masking import masked
from ...model.values.reading import instant
from ..parameters import short_id
from .output import compact, moment, without_distance

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_BOOKKEEPING = ("next_run", "next_at", "version")
"""Fields that change along with others: they come last."""
_NOTES = ("note", "pause_note", "reason")


def subject(target: str) -> str:
    """`job:crawl` in words; ids of executions and the like are shortened.

    >>> subject("job:crawl"), subject("execution:019a1b2c-3d4e-7f00-8a1b-0123456789ab")
    ('job crawl', 'execution …0123456789ab')
    """
    kind, _, name = target.partition(":")
    return f"{kind} {short_id(name)}" if name else target


def new_values(before: Any, after: Any, at: datetime) -> str:
    """The new values of the fields that differ; of a pause its note and its end.

    >>> new_values({}, {"paused": "2026-03-01T00:00:00Z", "note": "server down"}, datetime.now())
    'server down'
    >>> new_values({"rate": 1.0}, {"rate": 1.0, "concurrency": 2}, datetime.now())
    'concurrency 2'
    """
    if not isinstance(after, dict):
        return short_id(str(after)) if after else ""
    old = before if isinstance(before, dict) else {}
    new = masked({name: value for name, value in after.items() if old.get(name) != value and name != "paused"})
    names = sorted(new, key=lambda name: name in _BOOKKEEPING)
    return ", ".join(_new_value(name, new[name], at) for name in names if new[name] not in _EMPTY)


def _new_value(name: str, value: Any, at: datetime) -> str:
    if name in _NOTES:
        return str(value)
    return f"{'until' if name == 'resume' else name} {_text(value, at)}"


def before_and_after(before: Any, after: Any, at: datetime) -> str:
    """The fields that differ, with their old and new values.

    >>> before_and_after({"queue": "mail", "priority": 1}, {"queue": "slow", "priority": 1}, datetime.now())
    'queue: mail -> slow'
    >>> before_and_after("scheduled", "paused", datetime.now()), before_and_after({"a": 1}, None, datetime.now())
    ('scheduled -> paused', 'a: 1 -> none')
    """
    if not isinstance(before, dict) and not isinstance(after, dict):
        return _arrow(before, after, at)
    old, new = (masked(value) if isinstance(value, dict) else {} for value in (before, after))
    names = [name for name in [*old, *(each for each in new if each not in old)] if old.get(name) != new.get(name)]
    names.sort(key=lambda name: name in _BOOKKEEPING)
    fields = [(name, _arrow(old.get(name), new.get(name), at)) for name in names]
    return ", ".join(f"{name}: {words}" for name, words in fields if words)


def _arrow(before: Any, after: Any, at: datetime) -> str:
    if before in _EMPTY:
        return "" if after in _EMPTY else _text(after, at)
    return f"{_text(before, at)} -> {'none' if after in _EMPTY else _text(after, at)}"


def _text(value: Any, at: datetime) -> str:
    text = short_id(value) if isinstance(value, str) else compact(value)
    return without_distance(moment(instant("at", text), at)) if _TIME.fullmatch(text) else text
