"""What a timeout or a cancel can do to a handler that runs, in words.

A coroutine is interrupted where it awaits, a child process is ended. A function in a thread cannot be stopped from
outside: it has to ask, with `ctx.check()`.
"""

from __future__ import annotations

from ...model.policies import Isolation

_STOPS: dict[Isolation | None, str] = {
    None: "stops at its next await",
    "thread": 'cannot be interrupted: ends at its next ctx.check(); isolation="process" would stop it',
    "process": "stops for certain: asked first, then interrupted by SIGTERM, then killed",
}


def stop_text(isolation: Isolation | None) -> str:
    """What happens to a running try that is to stop; None is a coroutine on the event loop.

    >>> stop_text(None)
    'stops at its next await'
    """
    return _STOPS[isolation]


def overrun_hint(isolation: Isolation | None) -> str:
    """What to do about a handler that runs on although it was asked to stop, to be added to the words about that."""
    return f"; a function in a thread {_STOPS['thread']}" if isolation == "thread" else ""
