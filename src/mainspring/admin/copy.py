"""`mainspring db copy SOURCE TARGET`: copies one database into another. `core.copy_store` does the copying."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from ..app.adapters import SystemClock, make_store
from ..config.load import load
from ..core import copy_store
from ..core.copy_store import Compared, CopyRefused, Moved
from ..core.locks import Lock
from ..core.ports import Store
from ..model.errors import ConfigurationError
from ..model.store.copy_records import RecordKind, key_of
from ..model.store.messages import ExecutionQuery
from ..model.values.database_url import parse_url, without_password
from .schema import status

__all__ = ["Compared", "CopyRefused", "Moved", "copy", "verify"]

LOCK = "mainspring db copy"
LOCK_TTL = 10.0
LOCK_WAIT = 15.0  # a copy that was killed has left its lock behind, for less than this
_TIME = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-")

Progress: TypeAlias = Callable[[str, RecordKind, int, float | None], None]
"""Called now and then with the step, the kind, the number of records so far, and the fraction done (0 to 1)."""


async def copy(source_url: str, target_url: str, progress: Progress, *, force: bool = False) -> Moved:
    """Copy every record of the source, and compare. A second run continues where the first was interrupted."""
    refuse_same_file(source_url, target_url)
    await refuse_nothing(source_url)
    async with opened(source_url) as source, opened(target_url) as target, alone(source, target) as lock:
        report = await with_fraction(source, progress)

        def report_while_locked(step: str, kind: RecordKind, count: int, key: str) -> None:
            lock.check()
            report(step, kind, count, key)

        return await copy_store.copy(source, target, report_while_locked, force=force)


async def verify(source_url: str, target_url: str, progress: Progress) -> tuple[Compared, ...]:
    """Compare, and change nothing."""
    for url in (source_url, target_url):
        await refuse_nothing(url)
    async with opened(source_url) as source, opened(target_url) as target:
        await copy_store.settle(source)
        return await copy_store.compare(source, target, await with_fraction(source, progress))


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = make_store(load({"database_url": url}, {}), SystemClock())
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def alone(source: Store, target: Store) -> AsyncIterator[Lock]:
    """Hold the lock for copies into the target. If the source has our lock too, both addresses are one database."""
    owner = f"mainspring db copy {secrets.token_hex(8)}"
    async with Lock(target, SystemClock(), lambda event: None, owner, LOCK, LOCK_TTL, wait=LOCK_WAIT) as lock:
        if any(row.owner == owner for row in await source.locks(LOCK, 1)):
            raise CopyRefused("source and target are the same database; give another target")
        yield lock


# --- refusing -------------------------------------------------------------------------------------------------------


def refuse_same_file(source_url: str, target_url: str) -> None:
    """Before anything is opened: opening would create what is missing."""
    paths = [url.path for url in (parse_url(source_url, "SOURCE"), parse_url(target_url, "TARGET")) if url.path]
    if len(paths) == 2 and os.path.realpath(paths[0]) == os.path.realpath(paths[1]):
        raise CopyRefused("source and target are the same database; give another target")


async def refuse_nothing(url: str) -> None:
    """A misspelt address must not look like an empty database."""
    if parse_url(url).scheme == "memory":
        raise ConfigurationError("memory:// lives and ends with its process: there is nothing to copy")
    if (await status(url)).required == 0:
        raise ConfigurationError(f"{without_password(url)}: there is no Mainspring database")


# --- progress -------------------------------------------------------------------------------------------------------


async def with_fraction(source: Store, progress: Progress) -> copy_store.Progress:
    """Ids begin with their time, so the position of an id between the first and the last gives the fraction done."""
    first = [key_of(record) for record in await source.copy_out("executions", "", 1)]
    last = [row.id for row in await source.find(ExecutionQuery(limit=1))]
    begin, end = (_millis(ids[0]) if ids else None for ids in (first, last))

    def report(step: str, kind: RecordKind, count: int, key: str) -> None:
        at = _millis(key) if kind == "executions" else None
        known = at is not None and begin is not None and end is not None and end > begin
        progress(step, kind, count, (at - begin) / (end - begin) if known else None)  # type: ignore[operator]

    return report


def _millis(id: str) -> int | None:
    found = _TIME.match(id)
    return int(found[1] + found[2], 16) if found else None
