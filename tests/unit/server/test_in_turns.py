"""Long lists are rendered in short steps."""

from __future__ import annotations

import asyncio
import time

import pytest

from mainspring.server.request import STEP, in_turns


@pytest.mark.req("API-13")
async def test_others_get_their_turn_while_a_list_is_rendered() -> None:
    turns = 0

    def render(item: int) -> str:
        began = time.perf_counter()
        while time.perf_counter() - began < STEP:
            pass
        return str(item)

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    assert await in_turns(range(10), render) == [str(item) for item in range(10)]
    beside.cancel()
    assert turns >= 9, "every item takes as long as a step may"


async def test_quick_items_share_a_step() -> None:
    steps = 0

    async def others() -> None:
        nonlocal steps
        while True:
            steps += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    began = time.perf_counter()
    await in_turns(range(1_000), str)
    took = time.perf_counter() - began
    beside.cancel()
    assert steps <= 1 + took / STEP
