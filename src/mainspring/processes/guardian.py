"""The guardian of a worker's child processes: a process of its own that does nothing but wait for the worker to end.

The worker writes `+GROUP` when it starts a child and `-GROUP` when that is over. When the pipe closes, however the
worker ended, the guardian kills every group that is left, with all that the handlers have started there. It runs as a
file, with the standard library only: `python -I -S guardian.py`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        (groups.add if line[0] == "+" else groups.discard)(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
