"""What is decided about child processes: how one ended, when it has done enough, how long a stop may take."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec

from ..core.engine.outcomes import CPU_LIMIT, OUT_OF_MEMORY
from ..model.values.reading import duration_text, size_text
from .resources import MEGABYTE

BROKEN_CHANNEL = "broken_channel"
CHANNEL_LOST = 77
"""The exit code of a child whose handler has closed the channel to the worker."""
_OOM_HINT = "; Mainspring did not send it, but the kernel does when the machine or a container is out of memory"

_FRAME = '  File "'
_CHILD_FRAME = f"{_FRAME}{Path(__file__).with_name('child.py')}"


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in seconds, sizes in bytes."""

    most: int
    """Children at once."""
    cancel_grace: float
    term_grace: float
    recycle_executions: int
    recycle_age: float
    recycle_growth: int


class Killed(msgspec.Struct, frozen=True):
    """Why the worker has killed a child."""

    reason: str
    error: str


CHANNEL_CLOSED = Killed(BROKEN_CHANNEL, "the handler has closed the channel of its process")
STOPPED = Killed("signal", "its process did not stop in time and was killed")


def out_of_memory(held: int, limit: int) -> Killed:
    return Killed(OUT_OF_MEMORY, f"held {held / MEGABYTE:.0f} MB, its max_memory is {size_text(limit)}")


def cpu_limit(used: float, limit: float) -> Killed:
    return Killed(CPU_LIMIT, f"used {used:.1f} s of processor time, its max_cpu is {duration_text(limit)}")


def how_it_ended(code: int | None, killed: Killed | None) -> Killed:
    """Why a child is gone that had not finished its work; `code` is its exit code, or the negative number of a signal.

    >>> how_it_ended(3, None).error
    'exit code 3: the handler ended its process'
    >>> how_it_ended(-11, None)
    Killed(reason='signal', error='SIGSEGV ended the process of the handler')
    """
    if killed is not None:
        return killed
    if code is None:
        return Killed("signal", "the process of the handler is gone; how it ended is not known")
    if code == CHANNEL_LOST:
        return CHANNEL_CLOSED
    if code >= 0:
        return Killed("exit_code", f"exit code {code}: the handler ended its process")
    name = _signal_name(-code)
    hint = _OOM_HINT if -code == signal.SIGKILL else ""
    return Killed("signal", f"{name} ended the process of the handler{hint}")


def of_the_handler(stack: str) -> str:
    """The part of a stack, innermost frame first, that is not Mainspring's own; all of it if there is no such part."""
    own, _, _ = stack.partition(_CHILD_FRAME)
    return own if _FRAME in own else stack


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def is_worn(settings: PoolSettings, executions: int, age: float, growth: int) -> bool:
    """Whether a child is to be replaced: by the number of its executions, its age, or by how much it has grown. An
    application that is large from the start does not count."""
    worked_enough = executions >= settings.recycle_executions or age >= settings.recycle_age
    return worked_enough or growth > settings.recycle_growth


def graces(settings: PoolSettings, within: float | None) -> tuple[float, float]:
    """Seconds from the request to SIGTERM, and from there to SIGKILL."""
    both = settings.cancel_grace, settings.term_grace
    total = sum(both)
    if within is None or total <= within:
        return both
    return both[0] / total * within, both[1] / total * within
