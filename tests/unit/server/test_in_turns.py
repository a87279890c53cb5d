"""Long lists are rendered some items at a time."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.server.request import RENDERED_AT_ONCE, in_turns


@pytest.mark.req("API-13")
async def test_others_get_their_turn_while_a_list_is_rendered() -> None:
    longest = since_last = turns = 0

    def render(item: int) -> str:
        nonlocal since_last, longest
        since_last += 1
        longest = max(longest, since_last)
        return str(item)

    async def others() -> None:
        nonlocal since_last, turns
        while True:
            since_last, turns = 0, turns + 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    assert await in_turns(range(1_000), render) == [str(item) for item in range(1_000)]
    beside.cancel()
    assert turns >= 1_000 // RENDERED_AT_ONCE
    assert longest == RENDERED_AT_ONCE
