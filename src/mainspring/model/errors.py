"""Every error that Mainspring raises on purpose.

Arguments are kept on the exception as attributes and in `args`, so that errors survive pickling between processes.
"""

from __future__ import annotations

import difflib
import heapq
import itertools
import os
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any

_SHOWN = 80
_COMPARED = 50_000
"""Pairs of characters that are compared to find the nearest name: this takes a few milliseconds."""


class MainspringError(Exception):
    """The base of all errors of this package."""


class InvalidValue(MainspringError, ValueError):
    """A value that cannot be used: names the field, the value, what is allowed and the remedy.

    >>> str(InvalidValue("hour", 25, "0 to 23"))
    'hour: 25 is not valid; allowed: 0 to 23'
    """

    field: str
    """The name of the parameter, option or setting."""
    value: Any
    """The value that was given."""
    allowed: str
    """What would be allowed, in words."""
    remedy: str
    """What to write instead, if that is known."""

    def __init__(self, field: str, value: Any, allowed: str, remedy: str = "") -> None:
        super().__init__(field, value, allowed, remedy)
        self.field, self.value, self.allowed, self.remedy = field, value, allowed, remedy

    def __str__(self) -> str:
        line = f"{self.field}: {shown(self.value)} is not valid; allowed: {self.allowed}"
        return f"{line}. {self.remedy}" if self.remedy else line

    def reworded(self, *, field: str | None = None, remedy: str | None = None) -> InvalidValue:
        """The same error with another name of the field, or another remedy."""
        given = self.remedy if remedy is None else remedy
        return InvalidValue(field or self.field, self.value, self.allowed, given)


class InvalidDeclaration(InvalidValue):
    """A value in the declaration of a job that cannot be used: also names the job, the file and the line.

    >>> str(InvalidDeclaration(InvalidValue("hour", 25, "0 to 23"), "job 'report'", "jobs.py:12"))
    "job 'report' (jobs.py:12): hour: 25 is not valid; allowed: 0 to 23"
    """

    def __init__(self, error: InvalidValue, subject: str, where: str) -> None:
        super().__init__(error.field, error.value, error.allowed, error.remedy)
        self.args = (error, subject, where)
        self.error, self.subject, self.where = error, subject, where

    def __str__(self) -> str:
        return f"{declared(self.subject, self.where)}{self.error}"


class ConfigurationError(MainspringError):
    """A setting, an address or a combination of settings that cannot work; `where` is the place in the code that asks
    for it, if it is known."""

    message: str
    """What is wrong."""
    subject: str
    """What asks for it, such as a job."""
    where: str
    """The place in the code that asks for it, if that is known."""

    def __init__(self, message: str = "", subject: str = "", where: str = "") -> None:
        super().__init__(message, subject, where)
        self.message, self.subject, self.where = message, subject, where

    def __str__(self) -> str:
        return f"{declared(self.subject, self.where)}{self.message}"


class NonRetryable(MainspringError):
    """Raised by a handler to fail its execution without a retry.

    >>> raise NonRetryable("the invoice was deleted")
    Traceback (most recent call last):
    ...
    mainspring.model.errors.NonRetryable: the invoice was deleted
    """


class RetryAfter(MainspringError):
    """Raised by a handler to run again later, without counting a failure.

    >>> RetryAfter("1m30s", "rate limited").delay
    90.0
    """

    def __init__(self, delay: float | timedelta | str, message: str = "") -> None:
        from .values.reading import duration  # values needs InvalidValue from this module

        super().__init__(delay, message)
        self.delay = duration("delay", delay, allow_zero=True)
        """The seconds until the next attempt."""
        self.message = message
        """Why it must wait."""

    def __str__(self) -> str:
        return self.message or f"retry after {self.delay:g} s"


class FailedAttempt(MainspringError):
    """Raised by Mainspring's own handlers: the attempt failed, and the next one comes no sooner than after `delay`
    seconds. Unlike `RetryAfter`, it counts as a failure."""

    def __init__(self, message: str, delay: float = 0.0) -> None:
        super().__init__(message, delay)
        self.message, self.delay = message, delay

    def __str__(self) -> str:
        return self.message


class ExecutionCancelled(MainspringError):
    """Raised by `ctx.check()` in an execution that was asked to stop, and anywhere in a handler that a signal stops. Do
    not catch it: it ends the handler."""


class Skip(MainspringError):
    """Raised by a handler that has nothing to do: its execution ends as skipped, with this reason.

    >>> raise Skip("no orders since yesterday")
    Traceback (most recent call last):
    ...
    mainspring.model.errors.Skip: no orders since yesterday
    """


class NotFound(MainspringError, LookupError):
    """Something was asked for by a name that is not known; suggests the nearest known name."""

    noun = "object"
    """What was asked for."""

    def __init__(self, name: object, known: Iterable[str] = ()) -> None:
        self.name = str(name)
        """The name or id that was asked for."""
        self.suggestion = nearest(self.name, known)
        """The known name that comes nearest; None if none is near."""
        super().__init__(self.name, (self.suggestion,) if self.suggestion else ())

    def __str__(self) -> str:
        hint = f"; did you mean {self.suggestion!r}?" if self.suggestion else ""
        return f"no {self.noun} named {shown(self.name)}{hint}"


class JobNotFound(NotFound):
    """There is no job of this name."""

    noun = "job"
    """What was asked for."""


class ExecutionNotFound(NotFound):
    """There is no execution with this id. It may have been pruned."""

    noun = "execution"
    """What was asked for."""

    def __str__(self) -> str:
        return f"no execution with id {shown(self.name)}"


class BackfillNotFound(NotFound):
    """There is no backfill with this id."""

    noun = "backfill"
    """What was asked for."""

    def __str__(self) -> str:
        return f"no backfill with id {shown(self.name)}"


class BulkNotFound(NotFound):
    """There is no bulk action with this id."""

    noun = "bulk action"
    """What was asked for."""

    def __str__(self) -> str:
        return f"no bulk action with id {shown(self.name)}"


class HandlerNotFound(NotFound):
    """No handler of this name is declared; `subject` and `where` say what asks for it."""

    subject: str
    """What asks for it, such as a job."""
    where: str
    """The file and line that asks for it, if that is known."""

    noun = "handler"
    """What was asked for."""

    def __init__(self, name: object, known: Iterable[str] = (), subject: str = "", where: str = "") -> None:
        super().__init__(name, known)
        self.args = (*self.args, subject, where)
        self.subject, self.where = subject, where

    def __str__(self) -> str:
        hint = "; declare it first, or give the function itself" if self.where and not self.suggestion else ""
        return f"{declared(self.subject, self.where)}{super().__str__()}{hint}"


class DuplicateRegistration(MainspringError):
    """Two jobs or handlers were registered under the same id."""

    id: str
    """The id."""
    first: str
    """Where it was registered first."""
    second: str
    """Where it was registered again."""

    def __init__(self, id: str, first: str, second: str) -> None:
        super().__init__(id, first, second)
        self.id, self.first, self.second = id, first, second

    def __str__(self) -> str:
        return (
            f"id {self.id!r} is registered twice: first in {nearby(self.first)}, again in {nearby(self.second)}. "
            "Rename one of them, or pass allow_override=True in tests"
        )


class CommandRefused(MainspringError):
    """The current state does not permit this command.

    >>> str(CommandRefused("pause", "cancelled", ["scheduled", "running"], "job 'x'"))
    "cannot pause job 'x': it is cancelled; pause is possible when scheduled or running"
    """

    command: str
    """The command."""
    state: str
    """The state that does not permit it."""
    subject: str
    """What the command was for."""

    def __init__(self, command: str, state: str, allowed: Iterable[str], subject: str = "the job") -> None:
        self.command, self.state, self.subject = command, state, subject
        self.allowed = tuple(allowed)
        """The states that permit the command."""
        super().__init__(command, state, self.allowed, subject)

    def __str__(self) -> str:
        possible = f"possible when {one_of(self.allowed)}" if self.allowed else "never possible"
        return f"cannot {self.command} {self.subject}: it is {self.state}; {self.command} is {possible}"


class AlreadyRunning(CommandRefused):
    """The trigger was skipped, because the overlap policy of the job permits no second execution now."""

    execution: Any
    """The skipped execution."""
    holder: str | None
    """The id of the running execution."""

    def __init__(self, job: str, execution: Any, holder: str | None) -> None:
        super().__init__("trigger", "running", ["no execution of it is alive"], f"job {job!r}")
        self.execution, self.holder = execution, holder

    def __str__(self) -> str:
        return (
            f"job {self.execution.job!r} is already running as execution {self.holder}; "
            f"this one was recorded as skipped ({self.execution.id})"
        )


class LeaseLost(MainspringError):
    """The lock is no longer held: the process could not renew it in time, or another owner has taken it."""


class WebhookError(MainspringError, ValueError):
    """A received webhook is refused."""

    reason: str
    """Which part of it is wrong: `header` (missing or malformed), `time`, `signature` or `body`."""
    message: str
    """What is wrong."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)
        self.reason, self.message = reason, message

    def __str__(self) -> str:
        return self.message


class StoreError(MainspringError):
    """The store could not carry out a request."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or does not answer, or another process holds its file. The same call may succeed
    later."""


class LockUnavailable(MainspringError):
    """The lock backend did not confirm the request, so no lock is held.

    >>> str(LockUnavailable("redis://localhost", "ConnectionError: refused"))
    'locks at redis://localhost cannot be used, so no lock is held: ConnectionError: refused'
    """

    place: str
    """The address of the lock backend."""
    error: str
    """What the driver reported."""

    def __init__(self, place: str, error: str) -> None:
        super().__init__(place, error)
        self.place, self.error = place, error

    def __str__(self) -> str:
        return f"locks at {self.place} cannot be used, so no lock is held: {self.error}"


class SchemaMismatch(StoreError):
    """The database schema is older or newer than this release can work with."""

    found: object
    """The version of the database."""
    expected: object
    """The version that this release needs."""
    remedy: str
    """What to do about it."""

    def __init__(self, found: object, expected: object, remedy: str = "run `mainspring db migrate`") -> None:
        super().__init__(found, expected, remedy)
        self.found, self.expected, self.remedy = found, expected, remedy

    def __str__(self) -> str:
        return f"the database schema is at {self.found}, this release needs {self.expected}; {self.remedy}"


def shown(value: object) -> str:
    """`repr`, cut so that an error stays one readable line."""
    text = repr(_beginning(value))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _beginning(value: object) -> object:
    """No more of a long text, list or object than is shown: the `repr` of a megabyte takes long."""
    if isinstance(value, str | bytes | list | tuple) and len(value) > _SHOWN:
        return value[: _SHOWN + 1]
    if isinstance(value, dict) and len(value) > _SHOWN:
        return dict(itertools.islice(value.items(), _SHOWN))
    return value


def declared(subject: str, where: str) -> str:
    """The beginning of a message about a declaration: what is declared, and where."""
    if not where:
        return ""
    return f"{subject} ({nearby(where)}): " if subject else f"{nearby(where)}: "


def nearby(place: str) -> str:
    """A file and line, with the path as seen from the working folder if the file is inside."""
    try:
        return place.removeprefix(f"{os.getcwd()}{os.sep}")
    except OSError:  # the folder was deleted
        return place


def one_of(words: Iterable[str]) -> str:
    """`["a", "b", "c"]` as "a, b or c"."""
    *head, last = words
    return f"{', '.join(head)} or {last}" if head else last


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known name that `name` was most likely meant to be, if there is one."""
    wanted, by_lower = name.lower(), {item.lower(): item for item in sorted(known)}
    candidates = heapq.nlargest(max(3, _COMPARED // (len(wanted) + 1) ** 2), by_lower, partial(_ends_alike, wanted))
    close = difflib.get_close_matches(wanted, candidates, n=1, cutoff=likeness)
    return by_lower[close[0]] if close else None


def _ends_alike(one: str, other: str) -> int:
    """How many characters are the same at the beginning and at the end: quickly compared, unlike all of them."""
    same = os.path.commonprefix  # characters are meant
    return len(same((one, other))) + len(same((one[::-1], other[::-1])))
