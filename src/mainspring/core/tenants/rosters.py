"""Rosters: the list of tenants that a parent runs for, kept in entries. It is created once, and never changes.

- scope `open`, key parent: this parent may have live tenants. Written first, so that the other entries are never lost.
- scope parent, keys `<writer>-0000`, `<writer>-0001`, ...: the names, a thousand in each.
- scope parent, key `list`: whose names count. The first writer of this entry has created the list; all others use it.
- scope `closed`, key parent: the parent has ended. Its list stays for a day, so that a process that was paused at the
  end cannot create another one, and is deleted then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from ...model.execution import ExecutionRow
from ...model.store.entries import Entry, EntryKind, EntryWrite
from ...model.time.instants import SECOND, Micros
from ..ports import Store

KIND: EntryKind = "tenants"
OPEN, CLOSED = "open", "closed"
HEADER = "list"
CHUNK = 1_000
PAGE = 500
KEPT_CLOSED: Micros = 86_400 * SECOND
NO_WRITER = "-"
"""Stands for the writer in the empty roster of a parent that ended before its tenants were listed."""


class RosterHeader(msgspec.Struct, frozen=True):
    """The writer of the names, and how many there are."""

    by: str
    total: int


class OpenParent(msgspec.Struct, frozen=True):
    """`at` is when it was stored, before any of its tenants started or ended."""

    job_id: str
    at: Micros


async def stored(store: Store, parent_id: str) -> RosterHeader | None:
    found = await store.entries(KIND, parent_id, [HEADER])
    return msgspec.json.decode(found[0].body, type=RosterHeader) if found else None


async def create(store: Store, parent: ExecutionRow, names: Sequence[str], by: str, now: Micros) -> RosterHeader:
    """The list of this parent: these names in their order, or those of another process that was first."""
    await store.write_entries([_opened(parent, now), *_chunks(parent.id, names, by)])
    mine = RosterHeader(by, len(names))
    if (await store.write_entries([_header(parent.id, mine)]))[0]:
        return mine
    known = await stored(store, parent.id)
    return RosterHeader(NO_WRITER, 0) if known is None else known  # deleted: its parent ended long ago


async def names_of(store: Store, parent_id: str, known: RosterHeader) -> AsyncIterator[list[str]]:
    """The names in their order, a thousand at a time."""
    for number in range(-(-known.total // CHUNK)):
        found = await store.entries(KIND, parent_id, [_chunk_key(known.by, number)])
        if found:
            yield msgspec.json.decode(found[0].body, type=list[str])


async def batches_of(
    store: Store, parent_id: str, known: RosterHeader, size: int
) -> AsyncIterator[list[tuple[int, str]]]:
    """The names with their positions in the list, in batches of at most this size."""
    position = 0
    async for names in names_of(store, parent_id, known):
        numbered = list(enumerate(names, position))
        position += len(names)
        for start in range(0, len(numbered), size):
            yield numbered[start : start + size]


async def open_parents(store: Store) -> list[tuple[str, OpenParent]]:
    """All parents that may have live tenants, which are few."""
    found: list[tuple[str, OpenParent]] = []
    after = ""
    while page := await store.list_entries(KIND, OPEN, after=after, limit=PAGE):
        found += [(entry.key, known) for entry in page if (known := entry.read(OpenParent)) is not None]
        after = page[-1].key
    return found


async def close(store: Store, parent: ExecutionRow, now: Micros) -> None:
    """The parent has ended, and its tenants have ended or have a cancel request."""
    record = Entry(kind=KIND, scope=CLOSED, key=parent.id, body=_body(OpenParent(parent.job_id, now)))
    await store.write_entries([EntryWrite(entry=record)])
    await store.write_entries([EntryWrite(entry=Entry(kind=KIND, scope=OPEN, key=parent.id), remove=True)])


async def forbid(store: Store, parent: ExecutionRow, now: Micros) -> RosterHeader:
    """The list of a parent that has ended: an empty one if it has none, so that no process can create one any more."""
    known = await stored(store, parent.id)
    return known if known is not None else await create(store, parent, [], NO_WRITER, now)


async def delete(store: Store, parent_id: str) -> None:
    while entries := await store.list_entries(KIND, parent_id, limit=PAGE):
        await store.write_entries([EntryWrite(entry=entry, remove=True) for entry in entries])
    gone = [Entry(kind=KIND, scope=scope, key=parent_id) for scope in (OPEN, CLOSED)]
    await store.write_entries([EntryWrite(entry=entry, remove=True) for entry in gone])


async def prune_closed(store: Store, now: Micros) -> int:
    """Delete the lists of parents that ended a day ago; returns how many."""
    deleted = 0
    after = ""
    while page := await store.list_entries(KIND, CLOSED, after=after, limit=PAGE):
        after = page[-1].key
        for entry in page:
            known = entry.read(OpenParent)
            if known is not None and known.at < now - KEPT_CLOSED:
                await delete(store, entry.key)
                deleted += 1
    return deleted


def _opened(parent: ExecutionRow, now: Micros) -> EntryWrite:
    entry = Entry(kind=KIND, scope=OPEN, key=parent.id, body=_body(OpenParent(parent.job_id, now)))
    return EntryWrite(entry=entry, seen_version=0)


def _header(parent_id: str, known: RosterHeader) -> EntryWrite:
    return EntryWrite(entry=Entry(kind=KIND, scope=parent_id, key=HEADER, body=_body(known)), seen_version=0)


def _chunks(parent_id: str, names: Sequence[str], by: str) -> list[EntryWrite]:
    return [
        EntryWrite(
            entry=Entry(
                kind=KIND, scope=parent_id, key=_chunk_key(by, number), body=_body(list(names[start : start + CHUNK]))
            )
        )
        for number, start in enumerate(range(0, len(names), CHUNK))
    ]


def _chunk_key(by: str, number: int) -> str:
    return f"{by}-{number:04d}"


def _body(value: object) -> str:
    return msgspec.json.encode(value).decode()
