"""Connections: how they are opened, how they wait for the write lock, and what their errors mean to a user."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, TypeVar

from ....model.errors import InvalidValue, StoreError, StoreUnavailable

T = TypeVar("T")
_creating = threading.Lock()

Hurry: TypeAlias = Callable[[], Exception | None]
"""Called while waiting for a lock: the reason to stop waiting, or None."""

_SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")
_SHORTEST_WAIT, _LONGEST_WAIT = 0.0002, 0.002
_CACHE_KIB = 32_768
_CHECKPOINT_PAGES = 4_000  # fold the log back every 16 MiB: fewer and larger writes than the default of 4 MiB
_LOG_LIMIT = 64 * 1024 * 1024
_MODE = 0o600  # parameters and results are nobody else's; SQLite gives the log and its index the mode of the file
_NOT_WRITABLE = "the file or its directory cannot be written; change its permissions or give another path"


def checked_path(path: str | os.PathLike[str]) -> str:
    """The path as text; in-memory databases are refused, because each connection would have its own."""
    text = os.fspath(path)
    if not isinstance(text, str) or not text or ":memory:" in text or text.startswith("file:"):
        raise InvalidValue("path", path, "the path of a database file", "For a store in memory use memory://")
    return os.path.abspath(text)


def checked_synchronous(level: str) -> str:
    if level.upper() not in _SYNCHRONOUS:
        raise InvalidValue("synchronous", level, "one of " + ", ".join(_SYNCHRONOUS))
    return level.upper()


def no_hurry() -> None:
    return None


def connect(path: str, synchronous: str, patience: float, hurry: Hurry = no_hurry) -> sqlite3.Connection:
    """Open the file in write-ahead-log mode. Errors are translated."""
    _create(path)
    try:
        connection = sqlite3.connect(path, isolation_level=None, timeout=0.0, cached_statements=512)
    except sqlite3.Error as error:
        raise explained(error, path) from error
    try:
        patiently(lambda: _prepare(connection, path, synchronous), path, patience, hurry)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(path: str) -> None:
    """Create a missing file, for its owner alone; an existing one keeps its mode.

    One thread at a time: closing a file drops the locks that other threads of the process hold on it.
    """
    with _creating:
        try:
            os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, _MODE))
        except OSError:
            return  # it exists, or SQLite says why it cannot


def _prepare(connection: sqlite3.Connection, path: str, synchronous: str) -> None:
    connection.execute("PRAGMA schema_version")  # opens the file, or makes it
    if not _writable(path) or not _writable(os.path.dirname(path)):
        raise StoreError(f"{path}: {_NOT_WRITABLE}")  # SQLite itself would say so only at the first enqueue
    [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreError(f"{path}: this file system does not permit write-ahead logging; move the file to a local disk")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_LIMIT}")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA secure_delete = OFF")
    connection.create_function("mainspring_lower", 1, str.lower, deterministic=True)


def _writable(path: str) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def begin(connection: sqlite3.Connection, path: str, patience: float, hurry: Hurry = no_hurry) -> bool:
    """Take the write lock. True if another process held it first."""
    tries = 0

    def take() -> None:
        nonlocal tries
        tries += 1
        connection.execute("BEGIN IMMEDIATE")

    patiently(take, path, patience, hurry)
    return tries > 1


def patiently(step: Callable[[], T], path: str, patience: float, hurry: Hurry) -> T:
    """Repeat a step for as long as another process holds the lock.

    The waits are short and random, so that no process always comes too late; SQLite's own busy handler waits ever
    longer and would starve beside a process that writes all the time.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return step()
        except sqlite3.Error as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise explained(error, path) from error
            if (reason := hurry()) is not None:
                raise reason from error
        time.sleep(random.uniform(_SHORTEST_WAIT, _LONGEST_WAIT))


def is_busy(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def explained(error: Exception, path: str) -> Exception:
    """The error with a message that names the file and the remedy; our own errors stay as they are."""
    if not isinstance(error, sqlite3.Error):
        return error
    extended = getattr(error, "sqlite_errorcode", None) or 0
    held = is_busy(error) and extended != sqlite3.SQLITE_BUSY_SNAPSHOT
    return (StoreUnavailable if held else StoreError)(f"{path}: {_reason(extended, path, error)}")


def _reason(extended: int, path: str, error: sqlite3.Error) -> str:
    code = extended & 0xFF
    if extended == sqlite3.SQLITE_BUSY_SNAPSHOT:
        return "the transaction began by reading and others have written since; begin it with BEGIN IMMEDIATE"
    if code == sqlite3.SQLITE_NOTADB:
        return "this file is not an SQLite database; give another path or move the file away"
    if code == sqlite3.SQLITE_CANTOPEN:
        return _cannot_open(Path(path))
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return _NOT_WRITABLE
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another process has held the write lock for too long; end its transaction or raise busy_timeout"
    if code == sqlite3.SQLITE_FULL:
        return "the disk is full; make room and try again"
    return f"SQLite says: {error}"


def _cannot_open(path: Path) -> str:
    if path.is_dir():
        return "this is a directory; give the path of a file in it"
    if not path.parent.is_dir():
        return f"the directory {path.parent} does not exist; create it first"
    return "the file cannot be opened; check the permissions of the file and its directory"
