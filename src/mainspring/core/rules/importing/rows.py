"""A job of another scheduler as an import takes it, and the names that it may have here."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from ....model.errors import InvalidValue, MainspringError
from ....model.triggers import Trigger
from ....model.values.reading import is_identifier

LONGEST_NAME = 100


class ImportRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job of another scheduler. With a `reason` somebody has to review it."""

    source: str
    name: str
    schedule: str
    """As the other scheduler writes it; a cron expression where there is no `trigger`."""
    trigger: Trigger | None = None
    task: str | None = None
    """The other scheduler's name for the code that runs."""
    handler: str | None = None
    usual_handler: str | None = None
    """The handler of a job that does not exist yet, where neither `handler` nor `task` names one."""
    args: tuple[Any, ...] = ()
    """Arguments by position, which get their names from the handler's signature."""
    params: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    """Further options of the job."""
    enabled: bool = True
    tz: str | None = None
    changes: tuple[str, ...] = ()
    """What the job will do differently from the original."""
    notes: tuple[str, ...] = ()
    """What is worth knowing about a job that does the same as the original."""
    reason: str | None = None


class NeedsReview(MainspringError):
    """Somebody has to decide what becomes of a job: the reason, and what to do."""


def past_date(at: datetime) -> NeedsReview:
    return NeedsReview(f"it was due once, at {at:%Y-%m-%d %H:%M %Z}, which is past: nothing is left to run")


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """The schedule of another scheduler: what it becomes, and what that does differently."""

    trigger: Trigger
    tz: str | None = None
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def completed(row: ImportRow, complete: Callable[[ImportRow], ImportRow]) -> ImportRow:
    """The row with its schedule and options; if that fails, the row with the reason."""
    try:
        return complete(row)
    except MainspringError as error:
        return msgspec.structs.replace(row, reason=str(error))


def job_name(text: str) -> str:
    """The nearest name that a job may have.

    >>> job_name("Every morning: send report")
    'Every-morning-send-report'
    """
    if is_identifier(text):
        return text
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-")
    return readable[:LONGEST_NAME].strip("-") or "job"


def name_by_work(task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A name for a job whose only id is random: the function's name and a few digits of what it is called with, so that
    the job keeps its name when its schedule changes or its process starts anew.

    >>> name_by_work("shop.jobs:refresh", (), {"all": True})
    'refresh-306fe3d2'
    """
    called = f"{task} {list(args)!r} {sorted(kwargs.items())!r}"
    digits = hashlib.sha256(called.encode()).hexdigest()[:8]
    return f"{job_name(_last_part(task))[:60]}-{digits}"


def numbered(names: Sequence[str]) -> Iterator[str]:
    """The same names, the second of a kind with `-2` and so on."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name}-{seen[name]}"


def handler_names(task: str) -> tuple[str, ...]:
    """The names under which a handler may do the work of a task, the likeliest first.

    >>> handler_names("shop.tasks:send_report")
    ('shop.tasks:send_report', 'shop.tasks.send_report', 'send_report', 'send-report')
    """
    last = _last_part(task)
    return tuple(dict.fromkeys([task, task.replace(":", "."), last, last.replace("_", "-")]))


def _last_part(task: str) -> str:
    return re.split(r"[.:]", task)[-1] or task


def named_params(args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str] | None) -> dict[str, Any]:
    """All arguments by name. `names` are the parameters of the handler in order; None if its code is not here.

    >>> named_params(("eu",), {"full": True}, ["region", "full"])
    {'region': 'eu', 'full': True}
    """
    if not args:
        return dict(kwargs)
    if names is None:
        raise NeedsReview(
            f"it passes {len(args)} arguments by position: give --app MODULE:APP, whose handler names them"
        )
    if len(args) > len(names):
        takes = ", ".join(names) or "no parameters"
        raise NeedsReview(
            f"it passes {len(args)} arguments by position, but its handler takes {takes}: change one of them"
        )
    found = dict(zip(names, args, strict=False))
    if twice := sorted(found.keys() & kwargs.keys()):
        raise InvalidValue("kwargs", twice[0], "parameters that args does not give already")
    return {**found, **kwargs}
