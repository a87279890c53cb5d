"""Folding: any number of nodes count the notes of failures into their error groups, each note exactly once.

A node reads the groups first and the notes after them. It counts the notes that no group lists as `folded`, and stores
each group by compare-and-set together with the keys of the notes that it has counted. Only then does it remove the
notes. So a counted note that still exists after a crash is listed, and is not counted again. A key leaves the list only
after its note was removed: a node that reads a group without that key reads the notes afterwards, and does not find the
note.

The entry `other` lists the ids of all groups. A new group takes a place in that list by compare-and-set of the entry;
if there is no place, its notes are counted in `other` itself. So two nodes can never disagree about where a note
belongs: one of the two writes to `other` is refused, and that node starts again with its reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from ...model.error_groups import FailureNote
from ...model.store.entries import Entry, EntryKind, EntryWrite
from ...model.time.instants import SECOND, Micros
from ..ports import Clock, Store
from . import rules
from .records import (
    GROUPS,
    KIND,
    MOST_GROUPS,
    MUTES,
    NOTES,
    OTHER,
    SAMPLES,
    ErrorGroup,
    Mute,
    Sample,
    Samples,
    entry_of,
    group_of,
    samples_entry,
)
from .rules import Note

BATCH = 500
"""How many notes are counted at a time. More would block the event loop for too long."""
ROUNDS = 40
"""How many batches one sweep counts, so that a storm of failures is worked off faster than it grows."""
MOST_SAMPLES = 100
"""How many tracebacks are copied with a batch, first for groups that have none."""
SAMPLE_EVERY: Micros = 60 * SECOND
"""The newest traceback of a group is replaced at most once in this time."""
LONGEST_TRACEBACK = 8_000
UPKEEP_EVERY = 600.0
PAGE = 200
FEW_KEYS = 20
"""How many keys of removed notes may stay in a group until it changes again."""


class Announcer(Protocol):
    """Hands the events of error groups over to webhooks."""

    async def error_group(self, group: ErrorGroup) -> None: ...


class _Batch(NamedTuple):
    """What one pass has read: groups before notes."""

    groups: dict[str, ErrorGroup]
    mutes: dict[str, Mute]
    notes: list[Note]
    unreadable: list[str]
    present: frozenset[str]
    """The keys of all notes that were read."""
    last: str | None
    """The key of the last note that was read; None if all were."""
    counted: set[str]
    """The keys that these groups list: no two notes share one."""


class Folding:
    """Each node has one."""

    def __init__(self, store: Store, clock: Clock, announcer: Announcer | None = None) -> None:
        self._store, self._clock, self._announcer = store, clock, announcer
        self._next_upkeep = float("-inf")
        self._vacant: frozenset[str] = frozenset()
        """Places that had no group at the last upkeep. They are freed only if they still have none, because a new group
        takes its place before it is stored."""

    async def sweep(self) -> None:
        """Count the notes, in a bounded number of batches. This costs one read if there are none."""
        for _ in range(ROUNDS):
            if await self.fold() < BATCH:
                break
        if self._clock.monotonic() >= self._next_upkeep:
            await self.upkeep()
            self._next_upkeep = self._clock.monotonic() + UPKEEP_EVERY

    async def fold(self) -> int:
        """Count one batch of notes. Returns how many were removed."""
        first = await self._store.list_entries(NOTES, "", limit=BATCH)
        if not first:
            return 0
        batch = await self._read(first)
        if not await self._make_room(batch):
            return BATCH  # another node changes the list of groups: start again
        done = await self._count(batch)
        await self._remove(NOTES, [*done, *batch.unreadable])
        await self._after(batch, frozenset(done))
        return len(done) + len(batch.unreadable)

    async def _read(self, first: Sequence[Entry]) -> _Batch:
        wanted = {note.group for _, note in _readable(first)}
        mutes = {
            entry.key: mute
            for entry in await self._store.list_entries(KIND, MUTES, limit=MOST_GROUPS)
            if (mute := entry.read(Mute)) is not None
        }
        groups = await self._groups([*sorted(wanted), OTHER])
        entries = await self._store.list_entries(NOTES, "", limit=BATCH)
        readable = _readable(entries)
        notes = [each for each in readable if each[1].group in wanted]  # others have come since
        unreadable = sorted({entry.key for entry in entries} - {key for key, _ in readable})
        last = entries[-1].key if len(entries) == BATCH else None
        groups.setdefault(OTHER, rules.other_group(await self._store.now()))
        present = frozenset(entry.key for entry in entries)
        counted = {key for group in groups.values() for key in group.folded}
        return _Batch(groups, mutes, notes, unreadable, present, last, counted)

    async def _groups(self, ids: Sequence[str]) -> dict[str, ErrorGroup]:
        found = await self._store.entries(KIND, GROUPS, ids)
        return {entry.key: group for entry in found if (group := group_of(entry)) is not None}

    async def _make_room(self, batch: _Batch) -> bool:
        """Give new groups their places, and count in `other` the notes of those that find none. False if another node
        was faster."""
        other = batch.groups[OTHER]
        known = set(other.ids)
        fresh = [note for note in batch.notes if note[1].group not in known and note[0] not in batch.counted]
        if not fresh:
            return True
        wanted = list(dict.fromkeys(note.group for _, note in fresh))
        placed = wanted[: max(0, MOST_GROUPS - len(known))]
        with_room = frozenset(placed)
        left_out = [note for note in fresh if note[1].group not in with_room]
        kept = _kept(other, batch)
        changed = msgspec.structs.replace(rules.counted(other, left_out, kept), ids=(*other.ids, *placed))
        if not await self._put(changed):
            return False
        batch.groups[OTHER] = msgspec.structs.replace(changed, version=other.version + 1)
        batch.counted.update(key for key, _ in left_out)
        return True

    async def _count(self, batch: _Batch) -> list[str]:
        """Count the new notes. Returns the keys of the notes that are certainly counted."""
        done = [key for key, _ in batch.notes if key in batch.counted]
        new: dict[str, list[Note]] = defaultdict(list)
        for note in batch.notes:
            if note[0] not in batch.counted:
                new[note[1].group].append(note)
        changed = {id: self._with(batch, id, notes) for id, notes in new.items()}
        await self._sample(list(changed.values()))  # before the groups, so that every group has a traceback
        won = await self._store.write_entries([_write(group) for group in changed.values()]) if changed else []
        for (id, group), stored in zip(changed.items(), won, strict=True):
            if stored:
                batch.groups[id] = msgspec.structs.replace(group, version=group.version + 1)
                done += [key for key, _ in new[id]]
        return done

    def _with(self, batch: _Batch, id: str, notes: Sequence[Note]) -> ErrorGroup:
        before, mute = batch.groups.get(id), batch.mutes.get(id)
        base = rules.new_group(min((note for _, note in notes), key=lambda note: note.at)) if before is None else before
        after = rules.counted(base, notes, () if before is None else _kept(before, batch))
        return rules.announced(after, rules.announcement(before, after, notes, mute))

    # --- after the notes are removed ----------------------------------------------------------------------
    async def _after(self, batch: _Batch, removed: frozenset[str]) -> None:
        """Announce new and changed groups, and shorten their lists of keys. A crash before either loses nothing."""
        touched = [batch.groups[id] for id in {note.group for _, note in batch.notes} if id in batch.groups]
        writes = []
        for group in (*touched, batch.groups[OTHER]):
            if group.announce is not None:
                writes.append(_write(_without(await self._announced(group), removed)))
            elif len(group.folded) > FEW_KEYS:
                writes.append(_write(_without(group, removed)))
        if writes:
            await self._store.write_entries(writes)

    async def _announced(self, group: ErrorGroup) -> ErrorGroup:
        """Hand the event over, after ending the mute of the group if it has to end. The returned group records that.
        Until it is stored, the event may be handed over again, which creates nothing twice."""
        if group.announce == "changed":
            await self._end_mute(group)
        if self._announcer is not None:
            await self._announcer.error_group(group)
        return msgspec.structs.replace(group, announce=None)

    async def _end_mute(self, group: ErrorGroup) -> None:
        """End the mute, unless an operator has muted the group again since it changed."""
        for entry in await self._store.entries(KIND, MUTES, [group.id]):
            if (mute := entry.read(Mute)) is None or not rules.covers_all(mute, group):
                await self._store.write_entries([EntryWrite(entry=entry, seen_version=entry.version, remove=True)])

    async def _sample(self, groups: Sequence[ErrorGroup]) -> None:
        """Copy tracebacks: for groups that have none yet, and now and then the newest one for the others."""
        ids = [each.id for each in groups]
        found = {entry.key: entry for entry in await self._store.entries(SAMPLES, "", ids)} if ids else {}
        left, writes = MOST_SAMPLES, []
        for group in sorted(groups, key=lambda group: group.id in found):
            entry = found.get(group.id)
            known = Samples() if entry is None else entry.read(Samples) or Samples()
            recent = known.newest is not None and group.last_seen - known.newest.at < SAMPLE_EVERY
            if recent or not left:
                continue
            left -= 1
            if (sample := await self._sample_of(group)) is not None:
                samples = samples_entry(group.id, Samples(known.first or sample, sample))
                writes.append(EntryWrite(entry=samples, seen_version=0 if entry is None else entry.version))
        if writes:
            await self._store.write_entries(writes)

    async def _sample_of(self, group: ErrorGroup) -> Sample | None:
        row = await self._store.execution(group.execution)
        if row is None:
            return None
        failed = [each for each in row.attempts if each.error_group == group.id]
        error = failed[-1].error if failed else row.error
        traceback = (failed[-1].traceback if failed else None) or ""
        return Sample(
            execution=row.id, at=group.last_seen, error=(error or "")[:1_000], traceback=traceback[-LONGEST_TRACEBACK:]
        )

    # --- upkeep -------------------------------------------------------------------------------------------
    async def upkeep(self) -> None:
        """Announce what a crash left unannounced, and remove mutes that are over and groups that have not been seen for
        long. The next upkeep frees their places, and places that a crash left without a group."""
        now = await self._store.now()
        other = (await self._groups([OTHER])).get(OTHER)
        if other is None:
            return
        vacant = set(other.ids)
        after = ""
        while page := await self._store.list_entries(KIND, GROUPS, after=after, limit=PAGE):
            after = page[-1].key
            for group in filter(None, map(group_of, page)):
                if group.announce is not None:
                    await self._put(await self._announced(group))
                elif group.id != OTHER and rules.is_over(group, now) and await self._forget(group):
                    continue
                vacant.discard(group.id)
        await self._end_mutes(now)
        gone, self._vacant = vacant & self._vacant, frozenset(vacant)
        if gone:
            await self._put(msgspec.structs.replace(other, ids=tuple(id for id in other.ids if id not in gone)))

    async def _end_mutes(self, now: Micros) -> None:
        mutes = await self._store.list_entries(KIND, MUTES, limit=MOST_GROUPS)
        over = [entry for entry in mutes if (mute := entry.read(Mute)) is not None and not mute.lasts(now)]
        if over:
            await self._store.write_entries(
                [EntryWrite(entry=entry, seen_version=entry.version, remove=True) for entry in over]
            )

    async def _forget(self, group: ErrorGroup) -> bool:
        (removed,) = await self._store.write_entries([msgspec.structs.replace(_write(group), remove=True)])
        if removed:
            await self._remove(SAMPLES, [group.id])
            await self._remove(KIND, [group.id], MUTES)
        return removed

    async def _put(self, group: ErrorGroup) -> bool:
        (won,) = await self._store.write_entries([_write(group)])
        return won

    async def _remove(self, kind: EntryKind, keys: Iterable[str], scope: str = "") -> None:
        writes = [EntryWrite(entry=Entry(kind=kind, scope=scope, key=key), remove=True) for key in keys]
        if writes:
            await self._store.write_entries(writes)


def _readable(entries: Iterable[Entry]) -> list[Note]:
    return [(entry.key, note) for entry in entries if (note := entry.read(FailureNote)) is not None]


def _kept(group: ErrorGroup, batch: _Batch) -> set[str]:
    """The keys that a group must keep in its list: their notes were found, or may come after the last note that was
    read."""
    return {key for key in group.folded if key in batch.present or (batch.last is not None and key > batch.last)}


def _without(group: ErrorGroup, removed: frozenset[str]) -> ErrorGroup:
    return msgspec.structs.replace(group, folded=tuple(key for key in group.folded if key not in removed))


def _write(group: ErrorGroup) -> EntryWrite:
    return EntryWrite(entry=entry_of(group), seen_version=group.version)
