"""Notes of failures are counted once, whatever fails in between and however many nodes count."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from mainspring.core.errors import folding as folding_module
from mainspring.core.errors.commands import LOOKED_AT, ErrorGroups, failed_with
from mainspring.core.errors.folding import Folding
from mainspring.core.errors.records import KIND, OTHER, ErrorGroup, ErrorGroupNotFound, group_of
from mainspring.model.error_groups import FailureNote
from mainspring.model.errors import InvalidValue
from mainspring.model.execution import AttemptRecord, ExecutionRow, State, encode_attempts
from mainspring.model.labels import error_label
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.model.values.ids import random_id
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing.clock import FakeClock

pytestmark = pytest.mark.req("SRC-2")


class Stopped(Exception):
    pass


class Fragile:
    """A store whose process ends after so many writes."""

    def __init__(self, store: MemoryStore, writes: int) -> None:
        self._store, self._left = store, writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write_entries(self, writes: list[EntryWrite]) -> list[bool]:
        """Each write of a batch stands alone, so the end may come between two of them."""
        done = []
        for write in writes:
            if not self._left:
                raise Stopped
            self._left -= 1
            done += await self._store.write_entries([write])
        return done


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock)
        self.announced: list[tuple[str, str | None]] = []
        self.number = 0

    async def error_group(self, group: ErrorGroup) -> None:
        self.announced.append((group.id, group.announce))

    def folding(self, store: Any = None) -> Folding:
        return Folding(store or self.store, self.clock, self)

    async def fail(self, group: str, count: int = 1, **fields: Any) -> None:
        now = await self.store.now()
        writes = []
        for _ in range(count):
            self.number += 1
            note = FailureNote(
                group=group,
                type="KeyError",
                execution=f"e{self.number}",
                at=now,
                **{"job": "j", "final": True, **fields},
            )
            key = f"{now:016d}/e{self.number}"
            body = msgspec.json.encode(note).decode()
            writes.append(EntryWrite(entry=Entry(kind="failure", key=key, body=body), seen_version=0))
        await self.store.write_entries(writes)

    async def notes(self) -> int:
        return len(await self.store.list_entries("failure", "", limit=100_000))

    async def counts(self) -> dict[str, int]:
        found = [group_of(entry) for entry in await self.store.list_entries(KIND, "", limit=10_000)]
        return {group.id: group.attempts for group in found if group is not None and group.attempts}


@pytest.fixture
def world() -> World:
    return World()


async def test_counts_jobs_tenants_releases_and_hours(world: World) -> None:
    groups = ErrorGroups(world.store, random.Random(1))
    await world.fail("a", 3, job="j1", tenant="acme", release="r1")
    world.clock.advance(3_600)
    await world.fail("a", 2, job="j2", tenant="beta", release="r2", final=False)
    await world.fail("b")
    await world.folding().sweep()
    assert await world.notes() == 0
    view = await groups.get("a")
    assert (view.count, view.failures, view.jobs_total, view.tenants_total) == (5, 3, 2, 2)
    assert [(each.name, each.count) for each in view.jobs] == [("j1", 3), ("j2", 2)]
    assert (view.first_release, view.last_release) == ("r1", "r2")
    assert view.trend[-2:] == (3, 2)
    assert view.last_seen_at > view.first_seen_at
    by_count = await groups.find(sort="count", limit=1)
    assert (by_count.total, [each.id for each in by_count.items]) == (2, ["a"])
    assert [each.id for each in (await groups.find(job="j2")).items] == ["a"]
    assert [each.id for each in (await groups.find(tenant="nobody")).items] == []
    assert [each.id for each in (await groups.find(since=view.last_seen_at, limit=1, offset=1)).items] != []
    with pytest.raises(ErrorGroupNotFound):
        await groups.get("c")
    with pytest.raises(InvalidValue, match="sort"):
        await groups.find(sort="name")  # type: ignore[arg-type]


async def test_failures_by_tenant_are_those_of_a_day(world: World) -> None:
    groups = ErrorGroups(world.store, random.Random(1))
    await world.fail("a", 9, tenant="last week's")
    await world.folding().sweep()
    world.clock.advance(6 * 86_400)
    await world.fail("a", 2, tenant="acme")
    await world.fail("b", 1, tenant="acme")
    await world.fail("b", 5)
    for number in range(120):
        await world.fail("b", 1, tenant=f"t{number}")
    await world.fail("b", 2, tenant="noisy")
    await world.folding().sweep()
    found = await groups.failures_by_tenant()
    assert (found["acme"], found["noisy"], len(found)) == (3, 2, 100)
    world.clock.advance(86_400)
    assert await groups.failures_by_tenant() == {}


async def test_nothing_is_doubled_or_lost_wherever_a_node_ends(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding_module, "MOST_GROUPS", 2)
    monkeypatch.setattr(folding_module, "FEW_KEYS", 0)
    expected: Counter[str] = Counter()
    ends = 0
    for writes in range(40):
        for group in ("a", "b", "c", "d"):  # the last two have no room
            await world.fail(group, 2)
            expected[group if group in ("a", "b") else OTHER] += 2
        try:
            await world.folding(Fragile(world.store, writes)).fold()
        except Stopped:
            ends += 1
        if writes % 3 == 0:
            await world.folding().sweep()
        world.clock.advance(1)
    await world.folding().sweep()
    await world.folding().sweep()
    assert ends > 10
    assert await world.notes() == 0
    assert await world.counts() == expected
    assert set(world.announced) == {("a", "new"), ("b", "new")}


async def test_nodes_that_count_at_once_count_each_note_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding_module, "MOST_GROUPS", 3)
    monkeypatch.setattr(folding_module, "BATCH", 7)
    real = world.store.write_entries

    async def slowly(writes: list[EntryWrite]) -> list[bool]:
        await asyncio.sleep(0)
        won = await real(writes)
        await asyncio.sleep(0)
        return won

    monkeypatch.setattr(world.store, "write_entries", slowly)
    total = 0
    for _ in range(10):
        for group in "abcde":
            await world.fail(group, 3)
            total += 3
        await asyncio.gather(*(world.folding().sweep() for _ in range(4)))
        world.clock.advance(1)
    while await world.notes():
        await world.folding().sweep()
    counts = await world.counts()
    assert sum(counts.values()) == total
    assert len(counts) == 4
    assert OTHER in counts


async def test_a_mute_lasts_until_the_group_changes(world: World) -> None:
    groups = ErrorGroups(world.store, random.Random(1))
    await world.fail("a", job="j1", release="r1")
    await world.folding().sweep()
    muted = await groups.mute("a", note="known", by="ada")
    assert muted.mute is not None
    assert (muted.mute.note, muted.mute.by) == ("known", "ada")
    assert [audit.action for audit in await world.store.audits("error:a")] == ["mute"]
    await world.fail("a", 2, job="j1", release="r1")
    await world.folding().sweep()
    assert (await groups.get("a")).muted
    assert await groups.unmuted_failures() == {"j1": 0}
    assert [each.id for each in (await groups.find(muted=True)).items] == ["a"]
    await world.fail("a", job="j2", release="r1")
    await world.folding().sweep()
    assert not (await groups.get("a")).muted
    assert world.announced == [("a", "new"), ("a", "changed")]
    await groups.mute("a")
    await world.fail("a", job="j2", release="r2")
    await world.folding().sweep()
    assert world.announced[2:] == [("a", "changed")]
    await groups.mute("a", until=world.clock.datetime + timedelta(seconds=60))
    world.clock.advance(61)
    assert not (await groups.get("a")).muted
    with pytest.raises(InvalidValue, match="until"):
        await groups.mute("a", until=world.clock.datetime)
    await groups.mute("a")
    unmuted = await groups.unmute("a", by="ada")
    assert not unmuted.muted
    assert (await world.store.audits("error:a"))[0].action == "unmute"


async def test_a_mute_set_after_the_change_outlives_its_announcement(world: World) -> None:
    groups = ErrorGroups(world.store, random.Random(1))
    await world.fail("a", job="j1")
    await world.folding().sweep()
    await groups.mute("a")
    await world.fail("a", job="j2")
    with pytest.raises(Stopped):
        await world.folding(Fragile(world.store, 1)).fold()  # counted; nothing is removed or announced
    await groups.mute("a", note="both jobs are known")
    await world.folding().upkeep()
    assert world.announced[1:] == [("a", "changed")]
    assert (await groups.get("a")).muted


async def test_a_muted_error_does_not_hide_other_failures_of_its_job(world: World) -> None:
    groups, chance = ErrorGroups(world.store, random.Random(1)), random.Random(1)
    rows = []
    for group, failed in (("b", 1), ("a", LOOKED_AT)):
        await world.fail(group, failed)
        for _ in range(failed):
            world.clock.advance(1)
            now = await world.store.now()
            attempt = AttemptRecord(1, "w", now, now, "failed", error_group=group)
            rows.append(
                ExecutionRow(
                    id=random_id(now, chance),
                    job="j",
                    job_id="i",
                    handler="h",
                    state=State.FAILED,
                    created=now,
                    finished=now,
                    error="e",
                    attempts_json=encode_attempts([attempt]),
                    labels=(error_label(group),),
                )
            )
    await world.store.add(rows)
    await world.folding().sweep()
    await groups.mute("a")
    assert await groups.unmuted_failures() == {"j": rows[0].finished}
    await groups.mute("b")
    assert await groups.unmuted_failures() == {"j": 0}


async def test_what_found_no_room_is_no_error_to_mute_or_retry(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding_module, "MOST_GROUPS", 0)
    await world.fail("a")
    await world.folding().sweep()
    assert await world.counts() == {OTHER: 1}
    with pytest.raises(InvalidValue, match="the group of one error"):
        await ErrorGroups(world.store, random.Random(1)).mute(OTHER)
    with pytest.raises(InvalidValue, match="the group of one error"):
        failed_with(OTHER)


async def test_an_announcement_survives_the_process(world: World) -> None:
    await world.fail("a")
    await Folding(world.store, world.clock, None).fold()  # this one hands nothing over, as one that ended would not
    entry = (await world.store.entries(KIND, "", ["a"]))[0]
    group = group_of(entry)
    assert group is not None
    flagged = msgspec.structs.replace(group, announce="new", announce_at=5)
    await world.store.write_entries([folding_module._write(flagged)])
    await world.folding().upkeep()
    await world.folding().upkeep()
    assert world.announced == [("a", "new")]


async def test_groups_unseen_for_long_are_removed_with_their_places(world: World) -> None:
    await world.fail("a")
    await world.folding().sweep()
    world.clock.advance(20 * 86_400)
    await world.fail("b")
    await world.folding().sweep()
    world.clock.advance(20 * 86_400)
    await world.folding().upkeep()  # its process ends before the place is free
    assert await world.counts() == {"b": 1}
    folding = world.folding()
    for places in (("a", "b"), ("b",)):
        await folding.upkeep()
        other = group_of((await world.store.entries(KIND, "", [OTHER]))[0])
        assert other is not None
        assert other.ids == places
