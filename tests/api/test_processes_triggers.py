"""A thousand triggers of one job at once, over three processes that share one database: one runs, the rest are refused
and recorded.
"""

from __future__ import annotations

import asyncio
import json
import resource
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.api.processes import PATIENCE, Deployment

TRIGGERS = 1_000
OPENED_AT_ONCE = 100
SPARE_FILES = 200
REQUEST = (
    b"POST /api/v1/jobs/only/trigger HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.mark.req("API-2", "API-4", "WIN-1")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_of_a_thousand_triggers_at_once_one_runs(kind: str, tmp_path: Path) -> None:
    allow_open_files(TRIGGERS + SPARE_FILES)
    deployment = Deployment(kind, tmp_path, servers=3)
    try:
        async with deployment.client() as operator:
            body = {"params": {"gate": "only"}, "interval_minutes": 30, "overlap": "skip"}
            await operator.create("only", "hold", **body)
            answers = await all_at_once(deployment.addresses)
            assert Counter(status for status, _ in answers) == {202: 1, 409: TRIGGERS - 1}
            [winner] = [told["execution_id"] for status, told in answers if status == 202]
            refused = [told["error"]["details"] for status, told in answers if status == 409]
            assert {details["holder"] for details in refused} == {winner}

            await operator.begun("only")
            assert operator.runs("only") == [winner]
            skipped = await all_skipped(operator)
            assert sorted(skipped) == sorted(details["execution_id"] for details in refused)
            operator.open("only")
            assert (await operator.ended(winner))["status"] == "completed"
            assert operator.runs("only") == [winner]

            async def counted() -> bool:
                stats = (await operator.job("only"))["stats"]
                return (stats["successful_runs"], stats["skipped_runs"]) == (1, TRIGGERS - 1)

            await operator.until(counted, "the statistics count one run and the rest as skipped")
        deployment.close()
    finally:
        deployment.kill()


async def all_at_once(addresses: list[str]) -> list[tuple[int, Any]]:
    """Every connection is open before the first request is sent: all of them are under way together."""
    ports = [urlsplit(addresses[number % len(addresses)]).port for number in range(TRIGGERS)]
    connections: list[Connection] = []
    try:
        async with asyncio.timeout(PATIENCE):
            for first in range(0, TRIGGERS, OPENED_AT_ONCE):
                some = ports[first : first + OPENED_AT_ONCE]
                connections += await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for port in some))
            for _, writer in connections:
                writer.write(REQUEST)
            return await asyncio.gather(*(answer_of(reader) for reader, _ in connections))
    finally:
        for _, writer in connections:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in connections), return_exceptions=True)


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, Any]:
    head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


async def all_skipped(operator: Any) -> list[str]:
    """Every execution that is recorded as skipped for the overlap, page by page."""
    found: list[str] = []
    path: str | None = "/api/v1/jobs/only/executions?status=skipped&limit=200"
    first = path
    while path is not None:
        page = await operator.get(path)
        assert page["total"] == TRIGGERS - 1
        assert {each["reason"] for each in page["executions"]} <= {"overlap"}
        found += [each["id"] for each in page["executions"]]
        path = f"{first}&cursor={page['next_cursor']}" if page["next_cursor"] else None
    return found


def allow_open_files(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(number, hard) if hard > 0 else number, hard))
