"""Entries: small records by kind, scope and key, each written by compare-and-set on its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from ...model.store.entries import Entry, EntryWrite
from .base import StoreSuite, World
from .executions.content import TEXTS

KEYS = ("", " ", "A", "Z", "a", "a ", "aa", "ab", "b", "é", "\u0130", "漢", "\uffff", "\U0001f40d", "\U0010ffff")
"""In code point order. The empty key lies before every page and is never listed."""


def entry(key: str = "k", **fields: Any) -> Entry:
    return Entry(**{"kind": "window", "scope": "nightly", "key": key, **fields})


def put(key: str = "k", seen: int | None = None, audit: Any = None, **fields: Any) -> EntryWrite:
    return EntryWrite(entry=entry(key, **fields), seen_version=seen, audit=audit)


def remove(key: str = "k", seen: int | None = None, audit: Any = None, **fields: Any) -> EntryWrite:
    return EntryWrite(entry=entry(key, **fields), seen_version=seen, remove=True, audit=audit)


async def listed(world: World, scope: str = "nightly", **page: Any) -> list[str]:
    return [found.key for found in await world.store.list_entries("window", scope, **page)]


async def versions(world: World, *keys: str) -> list[tuple[int, str]]:
    return [(found.version, found.body) for found in await world.store.entries("window", "nightly", keys)]


class WritingEntries(StoreSuite):
    async def test_an_insert_wins_only_where_nothing_is(self, world: World) -> None:
        assert await world.store.write_entries([put(seen=0, body='{"n":1}', version=77)]) == [True]
        assert await world.store.write_entries([put(seen=0, body='{"n":2}')]) == [False]
        assert await world.store.entries("window", "nightly", ["k"]) == [entry(version=1, body='{"n":1}')]

    async def test_an_update_wins_only_over_the_version_it_saw(self, world: World) -> None:
        assert await world.store.write_entries([put(seen=1)]) == [False]
        assert await world.store.entries("window", "nightly", ["k"]) == []
        await world.store.write_entries([put(seen=0)])
        assert await world.store.write_entries([put(seen=1, body="[2]", version=77)]) == [True]
        assert await world.store.write_entries([put(seen=1, body="[3]"), put(seen=3, body="[4]")]) == [False, False]
        assert await versions(world, "k") == [(2, "[2]")]

    async def test_a_put_that_saw_nothing_always_wins(self, world: World) -> None:
        assert await world.store.write_entries([put(body="[1]")]) == [True]
        assert await world.store.write_entries([put(body="[2]")]) == [True]
        assert await versions(world, "k") == [(2, "[2]")]

    async def test_a_removed_entry_is_gone_and_starts_over(self, world: World) -> None:
        await world.store.write_entries([put(), put()])
        assert await world.store.write_entries([remove(seen=1), remove(seen=3), remove(seen=0)]) == [
            False,
            False,
            False,
        ]
        assert await versions(world, "k") == [(2, "{}")]
        assert await world.store.write_entries([remove(seen=2)]) == [True]
        assert await listed(world) == []
        assert await world.store.write_entries([put(seen=0)]) == [True]
        assert await world.store.write_entries([remove()]) == [True]
        assert await world.store.entries("window", "nightly", ["k"]) == []

    async def test_to_remove_what_is_not_there_wins_only_unseen(self, world: World) -> None:
        assert await world.store.write_entries([remove(seen=1), remove(seen=0), remove()]) == [False, False, True]

    async def test_writes_of_one_call_are_judged_one_by_one_in_their_order(self, world: World) -> None:
        writes = [
            *(put(seen=0, body="[1]"), put(seen=0, body="[2]"), put(seen=1, body="[3]"), put("other", seen=1)),
            *(put("other"), remove("other", seen=2), put(body="[4]"), remove("other", seen=1), put("other", seen=0)),
        ]
        won = await world.store.write_entries(writes)
        assert won == [True, False, True, False, True, False, True, True, True]
        assert await versions(world, "k", "other") == [(3, "[4]"), (1, "{}")]

    async def test_the_audit_record_is_stored_if_and_only_if_the_write_won(self, world: World) -> None:
        audits = [world.audit(action=f"act {n}") for n in range(6)]
        writes = [
            *(put(seen=0, audit=audits[0]), put(seen=0, audit=audits[1]), put(seen=1, audit=audits[2])),
            *(remove(seen=1, audit=audits[3]), remove(seen=2, audit=audits[4]), remove(audit=audits[5])),
        ]
        won = await world.store.write_entries(writes)
        assert won == [True, False, True, False, True, True]
        kept = [audit for audit, mine in zip(audits, won, strict=True) if mine]
        assert await world.store.audits() == kept[::-1]
        assert await world.store.audits("job") == kept[::-1]
        assert await world.store.audits("nobody") == []

    async def test_no_writes_are_no_mistake(self, world: World) -> None:
        assert await world.store.write_entries([]) == []
        assert await world.store.entries("window", "nightly", []) == []

    async def test_of_two_who_saw_the_same_version_one_wins(self, world: World) -> None:
        async with world.second() as other:
            for version in range(10):
                stores = (world.store, other)
                audits = [world.audit() for _ in stores]
                writes = [put(seen=version, body=f"[{n}]", audit=audit) for n, audit in enumerate(audits)]
                calls = (store.write_entries([write]) for store, write in zip(stores, writes, strict=True))
                won = [answer for [answer] in await asyncio.gather(*calls)]
                assert sorted(won) == [False, True]
                assert await versions(world, "k") == [(version + 1, f"[{won.index(True)}]")]
                assert (await world.store.audits(limit=1)) == [audits[won.index(True)]]
        assert len(await world.store.audits()) == 10

    async def test_two_who_put_unseen_both_win_and_both_count(self, world: World) -> None:
        """In opposite orders, so that two batches that lock row by row would deadlock."""
        async with world.second() as other:
            for _ in range(10):
                forth, back = [put(key) for key in "abcdef"], [put(key) for key in "fedcba"]
                answers = await asyncio.gather(world.store.write_entries(forth), other.write_entries(back))
                assert [*answers] == [[True] * 6] * 2
        assert [version for version, _ in await versions(world, *"abcdef")] == [20] * 6

    async def test_many_writes_in_one_call(self, world: World) -> None:
        keys = [f"{n:05d}" for n in range(2_000)]
        assert await world.store.write_entries([put(key, seen=0) for key in keys]) == [True] * 2_000
        assert await listed(world, limit=5_000) == keys
        assert len(await world.store.entries("window", "nightly", keys)) == 2_000


class ReadingEntries(StoreSuite):
    async def test_entries_come_in_the_order_of_code_points(self, world: World) -> None:
        await fill(world, KEYS[::-1])
        assert await listed(world) == [*KEYS[1:]]
        found = await world.store.entries("window", "nightly", [*KEYS, "a", "none"])
        assert [one.key for one in found] == [*KEYS]

    async def test_pages_between_two_keys(self, world: World) -> None:
        await fill(world, KEYS)
        shown = [*KEYS[1:]]
        for start, after in enumerate(shown, 1):
            assert await listed(world, after=after) == shown[start:]
            assert await listed(world, before=after) == shown[: start - 1]
        assert await listed(world, after="a", before="漢") == ["a ", "aa", "ab", "b", "é", "\u0130"]
        assert await listed(world, after="a", before="漢", limit=2) == ["a ", "aa"]
        assert await listed(world, after="aaa", before="az") == ["ab"]
        assert await listed(world, limit=1) == [" "]
        assert await listed(world, after="b", before="a") == []
        assert await listed(world, before="") == []

    async def test_kinds_and_scopes_are_apart(self, world: World) -> None:
        scopes = ("", "a", "A", "a ", "á", "a\u0301", "nightly", "nightly2", "\x01", "a\x01", "\x02")
        for n, scope in enumerate(scopes):
            written = [put(scope=scope, body=f"[{n}]"), put(scope=scope, kind="revision"), put("x" * n, scope=scope)]
            assert await world.store.write_entries(written) == [True] * 3
        for n, scope in enumerate(scopes):
            shown = await world.store.list_entries("window", scope)
            assert [one.key for one in shown] == ["k", "x" * n][: 2 if n else 1]
            assert shown[0] == entry(scope=scope, version=1, body=f"[{n}]")
            assert [one.key for one in await world.store.list_entries("revision", scope)] == ["k"]
            assert await world.store.list_entries("calendar", scope) == []
        assert await world.store.entries("calendar", "nightly", ["k"]) == []

    async def test_only_those_asked_for_that_exist(self, world: World) -> None:
        await fill(world, ("a", "b", "c"))
        found = await world.store.entries("window", "nightly", ["c", "none", "a", "c"])
        assert found == [entry("a", version=1), entry("c", version=1)]

    async def test_any_unicode_in_entries(self, world: World) -> None:
        for text in TEXTS:
            body = json.dumps({text: text}, ensure_ascii=False)
            assert await world.store.write_entries([put(f"k{text}", seen=0, scope=text, body=body)]) == [True]
            whole = entry(f"k{text}", scope=text, body=body, version=1)
            assert await world.store.list_entries("window", text) == [whole]
            assert await world.store.entries("window", text, [f"k{text}"]) == [whole]

    async def test_what_an_entry_says_is_opaque(self, world: World) -> None:
        text = '{"big":123456789012345678901234567890,"exp":1e400,"zero":-0.0,"order":{"b":1,"a":2},"esc":"\\u0041"}'
        for body in (text, json.dumps({"x": "é" * 100_000}, ensure_ascii=False)):
            await world.store.write_entries([put(body=body)])
            assert [found for _, found in await versions(world, "k")] == [body]


async def fill(world: World, keys: Sequence[str]) -> None:
    assert await world.store.write_entries([put(key, seen=0) for key in keys]) == [True] * len(keys)
