"""Before a fork every open store lets go of its connections; the parent takes them up again, the child has none.

SQLite keeps file locks per process and remembers them in memory. A child that inherits that memory believes in locks
it does not hold, and could wait for ever, or damage the file, when it opens the same database itself.
"""

from __future__ import annotations

import os
import threading
import time
import weakref

from .connection_thread import ConnectionThread

_PATIENCE = 10.0  # seconds to wait for running transactions before the fork goes ahead regardless

_threads: weakref.WeakSet[ConnectionThread] = weakref.WeakSet()
_turn = threading.RLock()  # held from before a fork until after it: forks, and stores that open, come one by one


def watch(*threads: ConnectionThread) -> None:
    """Those that have ended need no farewell: they hold nothing."""
    with _turn:
        _threads.update(threads)


def _before() -> None:
    _turn.acquire()
    for thread in list(_threads):
        thread.pause()
    end = time.monotonic() + _PATIENCE
    for thread in list(_threads):
        thread.await_paused(end - time.monotonic())


def _in_parent() -> None:
    for thread in list(_threads):
        thread.resume()
    _turn.release()


def _in_child() -> None:
    global _turn
    _turn = threading.RLock()
    _threads.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
