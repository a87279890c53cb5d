"""What a test expects of executions, and the messages of failed assertions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from ..model.execution import ExecutionRow, State
from ..model.policies import Unique
from ..model.time.instants import SECOND, Micros, seconds_to_micros, to_micros
from ..model.triggers.base import instant_text
from ..model.values.reading import duration, duration_text, instant

MOST_LINES = 20


class Unset:
    """An expectation that was not given: None is a value that can be expected."""

    def __repr__(self) -> str:
        return "..."


UNSET = Unset()


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What an execution must look like. Fields that are not given may have any value."""

    name: str | None = None
    """The name of a job or of a handler."""
    params: Any = None
    start_at: Any = None
    unique: str | Unique | None = None
    queue: str | None = None
    priority: int | None = None
    tz: str = "UTC"

    def fits(self, execution: ExecutionRow) -> bool:
        return (
            (self.name is None or self.name in (execution.job, execution.handler))
            and (self.params is None or _holds(execution.arguments, plain(self.params)))
            and (self.start_at is None or execution.due == self._due(execution.created))
            and (self.unique is None or execution.unique_key == _key(self.unique))
            and (self.queue is None or execution.queue == self.queue)
            and (self.priority is None or execution.priority == self.priority)
        )

    def _due(self, created: Micros) -> Micros:
        """`start_at` is an instant, or a delay from the enqueue such as "10m" or a timedelta."""
        given = self.start_at
        if isinstance(given, timedelta) or (isinstance(given, str) and given[-1:] in "smhdw"):
            return created + seconds_to_micros(duration("start_at", given, allow_zero=True))
        return to_micros(instant("start_at", given, tz=self.tz))

    def __str__(self) -> str:
        names = ("params", "start_at", "unique", "queue", "priority")
        given = [f"{name}={getattr(self, name)!r}" for name in names if getattr(self, name) is not None]
        return " ".join([repr(self.name or "anything"), *(["with", ", ".join(given)] if given else [])])


def how_often(found: int, wanted: int | None) -> bool:
    """Whether the number is the wanted one; at least one if no number was given."""
    return found > 0 if wanted is None else found == wanted


def times(count: int, done: str) -> str:
    """`not enqueued`, `enqueued once`, `enqueued 3 times`."""
    return f"{done} {_often(count)}" if count else f"not {done}"


def expected_times(count: int | None) -> str:
    return "" if count is None else f", expected: {_often(count)}"


def _often(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def mismatch(claim: str, title: str, executions: Sequence[ExecutionRow], *, results: bool = False) -> AssertionError:
    """The failed assertion, followed by the existing executions; with `results`, those that completed show theirs."""
    lines = [line(execution, results) for execution in executions[-MOST_LINES:]]
    more = len(executions) - len(lines)
    shown = [f"  ... and {more:,} earlier ones"] if more else []
    return AssertionError("\n".join([claim, f"{title}:", *shown, *(lines or ["  (nothing)"])]))


def line(execution: ExecutionRow, result: bool = False) -> str:
    parts = [f"  {execution.job}", f"params={execution.arguments}", execution.state.value]
    parts += [f"result={execution.result!r}"] if result and execution.state is State.COMPLETED else []
    if execution.trigger == "enqueue":
        delay = (execution.due - execution.created) / SECOND
        parts += [f"start_at={instant_text(execution.start_at)} (+{duration_text(delay)})"] if delay > 0 else []
        parts += [f"unique={execution.unique_key!r}"] if execution.unique_key else []
        parts += [f"queue={execution.queue!r}"] if execution.queue != "default" else []
        parts += [f"priority={execution.priority}"] if execution.priority else []
    else:
        parts.append(f"{execution.trigger} at {instant_text(execution.scheduled_at or execution.created_at)}")
    parts += [f"attempt {execution.attempt}"] if execution.failures else []
    parts += [f"({execution.reason})"] if execution.reason else []
    parts += [f"error={execution.error!r}"] if execution.error else []
    return "  ".join(parts)


def plain(value: Any) -> Any:
    """The value after a round trip through JSON: expected parameters may be dates, enums or records."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))


def _holds(actual: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(name in actual and actual[name] == value for name, value in wanted.items())


def _key(unique: str | Unique) -> str | None:
    return unique.enqueued if isinstance(unique, Unique) else unique
