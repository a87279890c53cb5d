"""The main of a child process: `python -m mainspring.app.child CHANNEL STACK PARENT`. Only a pool starts it."""

from __future__ import annotations

import sys

from ..processes.child import Application, serve
from ..processes.frames import Setup
from .import_path import load_in_child


def load(setup: Setup) -> Application:
    runtime = load_in_child(setup.import_path, setup.modules)._runtime
    return Application(runtime.registry, runtime.handler_resources(), runtime.logger)


if __name__ == "__main__":
    channel, stack, parent = map(int, sys.argv[1:])
    serve(channel, stack, parent, load)
