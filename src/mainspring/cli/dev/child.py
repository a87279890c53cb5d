"""The process of `mainspring dev` that runs the application.

It imports the application first and reports to the watching process whether that worked; it runs once it is told to,
when the process before it has stopped. Standard input is a socket to the watching process: if that is gone, this one
stops in good order.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import traceback
from typing import Any

import msgspec

from ...app.mainspring import Mainspring
from ...core.declaring.places import absent
from ...model.errors import InvalidValue, MainspringError
from ...observe.logs.run_lines import configure_run_lines
from ..load import FIELD, load_app
from ..root import BAD_INPUT
from ..start_report import DevStart, OrphanWatch
from .watching import is_own, loaded_folders

HOST = "127.0.0.1"
ROLES = "scheduler,worker,api"
STOP_TIMEOUT, STOP_RESERVE = 6.0, 5.0
"""Seconds of a stop in all, and how many of them are for handing back: handlers get one second to end by themselves."""


class Report(msgspec.Struct, frozen=True):
    """What this process reports after the import: what is wrong, if anything, and where its code is."""

    folders: list[str]
    port: int = 0
    error: str | None = None
    mistyped: bool = False
    """Whether the command line names a module that is not there, or misspells the name of an application in it."""


class Parent:
    """The link to the watching process."""

    def __init__(self) -> None:
        """Standard input is empty afterwards, so that a forgotten `breakpoint()` ends its handler at once."""
        self._socket = socket.socket(fileno=os.dup(0))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self._port: int | None = None
        self._may_run, self._runs = threading.Event(), False
        threading.Thread(target=self._listen, name="mainspring-parent-watch", daemon=True).start()

    def report(self, report: Report) -> None:
        self._socket.sendall(msgspec.json.encode(report) + b"\n")

    def port_to_run_on(self) -> int:
        """Waits until this process is to run."""
        self._may_run.wait()
        self._runs = True
        assert self._port is not None, "it comes with the word to run"
        return self._port

    def _listen(self) -> None:
        with self._socket.makefile("rb") as words:
            for word in words:
                self._port = int(word)
                self._may_run.set()
        if not self._runs:
            os._exit(0)
        os.kill(os.getpid(), signal.SIGTERM)


def run_child(target: str, port: int | None, log_level: str | None, again: bool) -> int:
    parent = Parent()
    try:
        app = load_app(target)
        app._runtime.import_modules()
        _ = app._runtime.declares  # whatever is wrong with a declaration shows here
    except (Exception, SystemExit) as error:
        parent.report(Report(loaded_folders(), error=short_traceback(error), mistyped=_is_mistyped(error, target)))
        return BAD_INPUT
    parent.report(Report(loaded_folders(), app.settings.port if port is None else port))
    port = parent.port_to_run_on()
    address = f"http://{HOST}:{port}/dashboard"
    configure_run_lines(address, (log_level or app.settings.log_level).upper())
    app.observe(DevStart(app, target, address, again))
    app.observe(OrphanWatch(app))
    _run(app, port)
    return 0


def _run(app: Mainspring, port: int) -> None:
    settings: dict[str, Any] = {"roles": ROLES, "host": HOST, "port": port, "allow_loopback": True}
    app.run(**settings, stop_timeout=STOP_TIMEOUT, stop_reserve=STOP_RESERVE)


def _is_mistyped(error: BaseException, target: str) -> bool:
    """No save of the application's code mends that."""
    if not isinstance(error, InvalidValue) or error.field != FIELD:
        return False
    if error.__cause__ is not None:
        return bool(absent(error.__cause__, target.partition(":")[0]))
    return error.remedy.startswith("Did you mean")


def short_traceback(error: BaseException) -> str:
    """The frames of the application's own code, and the error; one line if there are none."""
    cause = error.__cause__ if isinstance(error, InvalidValue) and error.__cause__ is not None else error
    frames = [each for each in traceback.extract_tb(cause.__traceback__) if _is_application(each.filename)]
    last = traceback.format_exception_only(cause) if not isinstance(cause, MainspringError) else [str(cause)]
    if not frames and not isinstance(cause, SyntaxError | MainspringError):
        last = [str(error)]  # such as a module that does not exist
    return "".join([*traceback.format_list(frames), *last]).rstrip()


def _is_application(file: str) -> bool:
    return not file.startswith("<") and is_own(os.path.abspath(file))
