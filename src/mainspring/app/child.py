"""The main of a child process: `python -m mainspring.app.child CHANNEL PARENT`. Only `processes.pool` starts it."""

from __future__ import annotations

import sys

from ..processes.child import Application, serve
from .import_path import load_application


def load(import_path: str) -> Application:
    runtime = load_application(import_path)._runtime
    runtime.import_modules()
    return Application(runtime.registry, runtime.handler_resources(), runtime.logger)


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), load)
