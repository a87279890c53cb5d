"""Before a fork every open store lets go of its connections; the parent takes them up again, the child has none.

SQLite keeps file locks per process and remembers them in memory. A child that inherits that memory believes in locks
it does not hold, and could wait for ever, or damage the file, when it opens the same database itself.
"""

from __future__ import annotations

import os
import weakref

from .threads import ConnectionThread

_PATIENCE = 10.0  # seconds to wait for a running transaction before the fork goes ahead regardless

_threads: weakref.WeakSet[ConnectionThread] = weakref.WeakSet()


def watch(*threads: ConnectionThread) -> None:
    _threads.update(threads)


def forget(*threads: ConnectionThread) -> None:
    _threads.difference_update(threads)


def _before() -> None:
    for thread in list(_threads):
        thread.pause()
    for thread in list(_threads):
        thread.await_paused(_PATIENCE)


def _in_parent() -> None:
    for thread in list(_threads):
        thread.resume()


def _in_child() -> None:
    _threads.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
