"""Fields of requests that take an instant: extreme ones are refused with 400, naive ones where no job has a zone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import client_of
from tests.support import Nodes

GOOD = "2026-03-01T00:00:00Z"
DOORS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("POST", "/api/v1/jobs", {"name": "n", "handler": "h", "schedule": "@once {at}"}),
    ("PUT", "/api/v1/jobs/sums", {"schedule": "@once {at}"}),
    ("POST", "/api/v1/jobs/sums/trigger", {"window": {"begin": "{at}", "end": GOOD}}),
    ("POST", "/api/v1/jobs/sums/trigger", {"window": {"begin": GOOD, "end": "{at}"}}),
    ("POST", "/api/v1/jobs/sums/pause", {"resume_at": "{at}"}),
    ("POST", "/api/v1/jobs/sums/occurrences/skip", {"at": "{at}"}),
    ("POST", "/api/v1/jobs/sums/occurrences/restore", {"at": "{at}"}),
    ("POST", "/api/v1/backfills", {"job": "sums", "begin": "{at}", "end": GOOD}),
    ("GET", "/api/v1/jobs/sums/windows?begin={at}", None),
    ("GET", "/api/v1/jobs/sums/executions?since={at}", None),
    ("GET", "/api/v1/executions?until={at}", None),
    ("GET", "/api/v1/audit?since={at}", None),
    ("GET", "/api/v1/missed-runs?since={at}", None),
]


def filled(value: Any, at: str) -> Any:
    if isinstance(value, dict):
        return {name: filled(inner, at) for name, inner in value.items()}
    return value.replace("{at}", at) if isinstance(value, str) else value


@pytest.mark.req("API-3", "REG-11")
async def test_extreme_instants_are_bad_requests(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("sums", cron="0 3 * * *", window="yesterday", tz="Europe/Berlin")(lambda: None)
    app.job("h")(lambda: None)
    async with client_of(app) as client:
        for method, path, body in DOORS:
            for at in ("0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00", "1969-12-31T23:59:59Z"):
                in_path = at if method == "GET" else at.replace("%2B", "+")
                error = await client.refused(400, method, filled(path, in_path), filled(body, in_path))
                assert "from the year 1970 to the year 4999" in error["message"] + str(error.get("details"))
        for path in ("/api/v1/executions?until={at}", "/api/v1/audit?since={at}"):
            error = await client.refused(400, "GET", filled(path, "2026-03-01T00:00:00"))
            assert "trailing Z" in error["message"] + str(error.get("details"))
