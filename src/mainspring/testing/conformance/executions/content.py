"""Content: texts, numbers and instants are read back exactly as they were stored."""

from __future__ import annotations

import json

import pytest

from ....model.execution import State
from ....model.store.messages import LogLine, ProgressReport
from ....model.time.instants import to_datetime, to_micros
from ..base import StoreSuite, World

TEXTS = (
    "",
    " leading and trailing \t\n",
    "naïve façade \u0130stanbul ß \u1e9e",
    "漢字 \U0001f40d\U0001f468\u200d\U0001f469\u200d\U0001f467 \u202e\u2066",
    "a\u0301 and \u00e1",
    "quotes ' \" ` \\ % _ ? :name $1 {} [] -- ;",
    "\ufeff\ufffd\uffff\U0010ffff",
    "\x01\x1f\x7f\x85\u2028\u2029",
)
PAYLOAD_LIMIT = 256 * 1024


class Content(StoreSuite):
    @pytest.mark.req("ENQ-6")
    async def test_any_unicode_in_every_text(self, world: World) -> None:
        for text in TEXTS:
            fields = {"tenant": text, "triggered_by": text, "trace_id": text, "params": json.dumps({"t": text})}
            row = await world.running(unique_key=f"u{text}", overlap_key=f"o{text}", **fields)
            report = ProgressReport(id=row.id, token=row.token, owner="w1", logs=(LogLine(1, "INFO", text, text),))
            assert await world.store.report([report]) == [True]
            raw = json.dumps({text: text}, ensure_ascii=False)
            assert await world.settle(row, error=text, reason=text, result_json=raw, metadata_json=raw)
            done = await world.get(row.id)
            assert (done.tenant, done.triggered_by, done.trace_id, done.error, done.reason) == (text,) * 5
            assert (done.result_json, done.metadata_json, done.arguments) == (raw, raw, {"t": text})
            assert (done.unique_key, done.overlap_key) == (f"u{text}", f"o{text}")
            assert await world.store.logs(row.id) == [(1, LogLine(1, "INFO", text, text))]

    async def test_keys_that_only_look_alike_are_different(self, world: World) -> None:
        keys = ("a", "A", "a ", "á", "a\u0301", "\uff41", "1", "01", "1.0")
        assert await world.outcomes(*(world.execution(unique_key=key) for key in keys)) == ["added"] * len(keys)
        assert await world.outcomes(*(world.execution(unique_key=key) for key in keys)) == ["unique_taken"] * len(keys)

    @pytest.mark.req("ENQ-6")
    async def test_json_text_is_opaque(self, world: World) -> None:
        text = '{"big":123456789012345678901234567890,"exp":1e400,"zero":-0.0,"order":{"b":1,"a":2},"esc":"\\u0041"}'
        row = await world.running(params=text)
        assert row.params == text
        await world.settle(row, result_json=text)
        done = await world.get(row.id)
        assert (done.params, done.result_json) == (text, text)

    @pytest.mark.req("ENQ-6")
    async def test_large_payloads(self, world: World) -> None:
        text = json.dumps({"x": "é" * (PAYLOAD_LIMIT // 2 - 8)}, ensure_ascii=False)
        assert PAYLOAD_LIMIT - 16 < len(text.encode()) <= PAYLOAD_LIMIT
        row = await world.running(params=text)
        await world.settle(row, result_json=text, error="e" * 100_000)
        done = await world.get(row.id)
        assert (done.params, done.result_json, len(done.error or "")) == (text, text, 100_000)

    async def test_instants_keep_their_microseconds(self, world: World) -> None:
        far = to_micros(to_datetime(0).replace(year=9999, microsecond=999_999))
        for at in (0, 1, -1, world.now + 123_457, far):
            done = world.execution(
                state=State.COMPLETED, created=at, tick=at, window_begin=at, window_end=at + 1, started=at, finished=at
            )
            await world.add(done)
            row = await world.get(done.id)
            assert (row.created, row.tick, row.window_begin, row.window_end) == (at, at, at, at + 1)
            assert (row.started, row.finished) == (at, at)

    async def test_extreme_priorities_keep_their_order(self, world: World) -> None:
        priorities = [2**31 - 1, 1, 0, -1, -(2**31)]
        await world.add(*(world.execution(priority=priority) for priority in reversed(priorities)))
        assert [row.priority for row in await world.claim()] == priorities

    async def test_the_stores_now_is_its_clock(self, world: World) -> None:
        assert await world.store.now() == world.now
        world.clock.advance(1.5)
        assert await world.store.now() == world.now

    async def test_another_handle_reads_what_this_one_wrote(self, world: World) -> None:
        await world.write(world.job())
        done = await world.finished()
        async with world.second() as other:
            assert await other.jobs() == await world.store.jobs()
            assert await other.execution(done.id) == done
            await other.add([world.execution()])
        assert len(await world.claim()) == 1

    async def test_opening_twice_is_harmless(self, world: World) -> None:
        done = await world.finished()
        await world.store.open()
        assert await world.get(done.id) == done
