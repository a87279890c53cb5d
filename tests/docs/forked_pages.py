"""Runs scripts, each in a process of its own, forked from one that has loaded what most of them import.

A page of the documentation takes a moment; loading Mainspring and its server takes seconds of processor time. The
forked process has its own folder, output and exit code, and its own `__main__`, as `python page.py` would have. The
paths of the scripts are read from the standard input, one per line; for each its exit code is printed.
"""

from __future__ import annotations

import gc
import os
import runpy
import signal
import sys
import threading
from pathlib import Path

LONGEST = 60
"""Seconds until a script is ended."""


def main() -> None:
    import fastapi.testclient  # noqa: F401

    import mainspring.testing
    from mainspring.stores import sqlite  # noqa: F401

    mainspring.Mainspring("memory://").asgi()  # the models of all routes
    assert threading.active_count() == 1, "a thread would be missing in the forked process"
    gc.freeze()  # no process that ends looks through all that was loaded
    while line := sys.stdin.readline():
        if (child := os.fork()) == 0:
            _become(Path(line.rstrip("\n")))
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(script: Path) -> None:
    signal.alarm(LONGEST)
    os.chdir(script.parent)
    output = os.open(script.with_suffix(".log"), os.O_CREAT | os.O_WRONLY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    sys.argv = [str(script)]
    sys.path[0] = str(script.parent)
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
