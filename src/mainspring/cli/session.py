"""What client commands share: how they find their database, and how they show results."""

from __future__ import annotations

import asyncio
import functools
import getpass
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import click

from ..app.adapters import make_store
from ..app.mainspring import Mainspring
from ..config.load import load
from ..config.settings import Settings
from ..core.ports import Store
from ..model.errors import ConfigurationError, SchemaMismatch
from ..model.store.copy_records import key_of
from ..model.store.messages import HeartbeatRequest
from ..model.values.database_url import parse_url
from .completion import applications
from .load import load_app
from .root import output_option
from .screens.output import print_json

T = TypeVar("T")
_NOWHERE = logging.NullHandler()
Command = TypeVar("Command", bound=Callable[..., Any])


PAGE = 500
NO_SCHEMA = (None, 0)
"""What a database without Mainspring's tables has as the version of its schema."""


def silence_logger() -> None:
    """A client command prints its result itself."""
    logging.getLogger("mainspring").addHandler(_NOWHERE)


class ClientSession:
    """One client command: a connection without any role, and the wanted output."""

    def __init__(self, app: str | None, database_url: str | None, output: str) -> None:
        self._target, self._url = app, database_url
        self.wants_json = output == "json"

    @property
    def knows_handlers(self) -> bool:
        """Whether the application's code is loaded, so that parameters can be checked."""
        return self._target is not None

    def call(self, work: Callable[[Mainspring], Awaitable[T]]) -> T:
        """Connect, do the work, disconnect."""
        return asyncio.run(_worked(self._app(), work))

    def look(self, work: Callable[[Mainspring], Awaitable[T]]) -> T:
        """As `call`, for work that only reads the database: nothing is created, migrated or declared there."""
        return asyncio.run(_worked(self.read_only_app(), work))

    def rehearse(self, work: Callable[[Mainspring], Awaitable[T]]) -> T:
        """As `look`, for work that needs the jobs which an application declares: it finds them in memory, beside a copy
        of the jobs in the database."""
        return self.look(work) if self._target is None else asyncio.run(_rehearsed(load_app(self._target), work))

    def _app(self) -> Mainspring:
        if self._target:
            return load_app(self._target)
        url = load({"database_url": self._url}).database_url
        _check_it_exists(url)
        return Mainspring(url, prune=False)  # it declares no jobs, so all of them would look undeclared

    def read_only_app(self) -> Mainspring:
        """The database alone, for reading: nothing is created or migrated."""
        url = self.database_url()
        _check_it_exists(url)
        return Mainspring(url, prune=False, auto_migrate=False)

    def settings(self) -> tuple[Settings, bool]:
        """Those of the application, or those of client commands in this folder and environment; and whether the
        application uses their `database_url`, not a store of its own."""
        if self._target is None:
            return load({"database_url": self._url}), True
        app = load_app(self._target)
        return app.settings, app._runtime.given_store is None

    def database_url(self) -> str:
        """The address that was given, or that of the application, or that of the settings."""
        if self._url is not None or self._target is None:
            return load({"database_url": self._url}).process.database_url
        runtime = load_app(self._target)._runtime
        if runtime.given_store is not None:
            raise click.UsageError(f"{self._target} has a store of its own; name its database with --database-url")
        return runtime.settings.process.database_url

    def show(self, data: Any, people: Callable[[], None]) -> None:
        if self.wants_json:
            print_json(data)
        else:
            people()


def client_options(command: Command) -> Command:
    """Adds `--app`, `--database-url` and `--output`; the command gets a `ClientSession` as its first argument."""

    @functools.wraps(command)
    def with_session(*args: Any, app: str | None, database_url: str | None, output: str, **options: Any) -> Any:
        return command(ClientSession(app, database_url, output), *args, **options)

    for option in _OPTIONS:
        with_session = option(with_session)
    return with_session  # type: ignore[return-value]


def source_options(command: Command) -> Command:
    """Adds `--app` and `--database-url` alone, for commands whose output is a file."""

    @functools.wraps(command)
    def with_session(*args: Any, app: str | None, database_url: str | None, **options: Any) -> Any:
        return command(ClientSession(app, database_url, "table"), *args, **options)

    for option in _SOURCES:
        with_session = option(with_session)
    return with_session  # type: ignore[return-value]


_SOURCES = [
    click.option(
        "--database-url", metavar="URL", help="The database  [default: MAINSPRING_DATABASE_URL, mainspring.toml]"
    ),
    click.option(
        "--app",
        metavar="MODULE:APP",
        envvar="MAINSPRING_APP",
        shell_complete=applications,
        help="The application, instead of the database.",
    ),
]
_OPTIONS = [output_option, *_SOURCES]


def operator() -> str:
    """Who gives the command, for the audit record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"


async def _worked(app: Mainspring, work: Callable[[Mainspring], Awaitable[T]]) -> T:
    silence_logger()
    await app.open()
    try:
        return await work(app)
    finally:
        await app.close()


async def _rehearsed(app: Mainspring, work: Callable[[Mainspring], Awaitable[T]]) -> T:
    from ..stores.memory import MemoryStore  # other commands start without it

    runtime, copy = app._runtime, MemoryStore(app._runtime.clock)
    before = runtime.given_store
    await copy.open()
    if before is not None:
        await _copy_jobs(before, copy)
    elif _is_there(runtime.settings.database_url):
        store = make_store(runtime.settings.with_changes({"auto_migrate": False}), runtime.clock)
        try:
            await _copy_jobs(store, copy)
        finally:
            await store.close()
    runtime.given_store = copy
    try:
        return await _worked(app, work)
    finally:
        runtime.given_store = before


def _is_there(url: str) -> bool:
    """Whether the database may hold jobs."""
    parsed = parse_url(url)
    if parsed.scheme != "sqlite":
        return parsed.scheme != "memory"
    return Path(parsed.path).is_file() and not _is_foreign(Path(parsed.path))


async def _copy_jobs(store: Store, copy: Store) -> None:
    """With the processes, which know handlers. A database without Mainspring's tables has no jobs."""
    try:
        await store.open()
    except SchemaMismatch as error:
        if error.found in NO_SCHEMA:
            return
        raise
    after = ""
    while jobs := await store.copy_out("jobs", after, PAGE):
        await copy.copy_in("jobs", jobs)
        after = key_of(jobs[-1])
    for worker in await store.workers():
        copy.heartbeat(HeartbeatRequest(worker=worker, leases=(), lease=worker.lease))


def _check_it_exists(url: str) -> None:
    """Client commands never create a database: an empty one in the wrong folder would mislead."""
    parsed = parse_url(url)
    hint = "name the database with --database-url or MAINSPRING_DATABASE_URL, or the application with --app"
    if parsed.scheme == "memory":
        raise click.UsageError(f"database_url: {url!r} lives inside one process only; {hint}")
    if parsed.scheme != "sqlite":
        return
    if Path(parsed.path).is_dir():
        raise ConfigurationError(f"database_url: {parsed.path!r} is a directory; give the path of a file in it")
    if not Path(parsed.path).is_file():
        raise click.UsageError(f"database_url: there is no file {parsed.path!r}; {hint}")
    if _is_foreign(Path(parsed.path)):
        remedy = "start an application on it first, or check the path"
        raise ConfigurationError(f"{parsed.path} holds no Mainspring tables; {remedy}")


def _is_foreign(path: Path) -> bool:
    """Whether the SQLite file holds no tables of Mainspring. It is opened read-only."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'mainspring_meta'").fetchone() is None
    except sqlite3.Error:
        return False  # the store reports what is wrong with it
