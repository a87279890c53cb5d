"""Long lists are rendered in short steps."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from mainspring.server.request import PART, STEP, ListResponse, in_turns


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


@pytest.mark.req("API-13")
@pytest.mark.parametrize("many", [False, True])
async def test_a_list_that_fits_into_one_part_has_a_length(many: bool) -> None:
    fields = {"items": ["x" * 1_000] * (2 * PART // 1_000 if many else 3), "total": 3, "next_cursor": None}
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await ListResponse(fields)({"type": "http"}, send, send)
    start, *parts = sent
    body = b"".join(part["body"] for part in parts)
    length = dict(start["headers"]).get(b"content-length")
    assert json.loads(body) == fields
    assert (len(parts) > 1, length) == (many, None if many else str(len(body)).encode())
    assert [part["more_body"] for part in parts] == [True] * (len(parts) - 1) + [False]
