"""Servers that run the application in processes of their own making, as far as `app.sync.start()` must know them."""

from __future__ import annotations

import os
from collections.abc import Callable, Container
from importlib import import_module
from typing import Any

from ..model.errors import ConfigurationError

UWSGI_WITH_THREADS = (2, 0, 30)
"""The first release that always lets threads run between requests."""
FALSE = ("", "0", "false", "no")


def uwsgi() -> Any:
    """The module that exists only inside a process of uWSGI; None elsewhere."""
    try:
        return import_module("uwsgi")
    except ImportError:
        return None


def refuse_without_threads() -> None:
    """Without threads, uWSGI stops the background thread between requests: leases would run out while jobs run."""
    server = uwsgi()
    if server is not None and not threads_enabled(server.version, server.opt):
        raise ConfigurationError(
            "uWSGI runs no threads between requests, so no job can run in its workers; set enable-threads = true in "
            "its configuration, or only enqueue here and run `mainspring worker` beside it"
        )


def threads_enabled(version: bytes | str, options: Container[str]) -> bool:
    """By the release of uWSGI and the options it was started with."""
    text = version.decode() if isinstance(version, bytes) else version
    numbers = tuple(int(part) for part in text.split("-")[0].split(".")[:3] if part.isdigit())
    return numbers >= UWSGI_WITH_THREADS or "enable-threads" in options or "threads" in options


def after_uwsgi_fork(start: Callable[[], None]) -> bool:
    """In the master of uWSGI, which loads the application and then forks its workers: let each worker call `start`, and
    return True. Threads of the master would never run again."""
    server = uwsgi()
    if server is None or server.worker_id() != 0 or server.masterpid() != os.getpid():
        return False
    import_module("uwsgidecorators").postfork(start)
    return True


def restarts_on_change() -> bool:
    """Whether this is the process of `flask run --debug` that watches the files. Its child serves, with the code as it
    is now, and is the one to run jobs."""
    if os.environ.get("FLASK_RUN_FROM_CLI") != "true" or os.environ.get("WERKZEUG_RUN_MAIN") == "true":
        return False
    import click  # Flask has imported it

    command = click.get_current_context(silent=True)
    if command is None or "reload" not in command.params:
        return False
    reload = command.params["reload"]
    return os.environ.get("FLASK_DEBUG", "").lower() not in FALSE if reload is None else bool(reload)
