"""`/api/v1/activity`: endings and lateness over time."""

from __future__ import annotations

import pytest

from mainspring import InvalidValue
from tests.api.client import client_of
from tests.support import Nodes, run_once


@pytest.mark.req("DSH-1", "API-8")
async def test_activity_of_each_span(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("work")(lambda: None)
    async with app, client_of(app) as client:
        await run_once(app, "work")
        await (await app._runtime.engine()).activity_recorder.flush()
        day = await client.get("/api/v1/activity")
        assert (day["span"], day["step"], len(day["points"])) == ("24h", 900, 96)
        assert sum(point["completed"] for point in day["points"]) == day["totals"]["completed"] == 1
        assert (day["totals"]["ended"], day["totals"]["ticks"], day["totals"]["late_99"]) == (1, 0, None)
        assert len(day["lateness_bounds"]) + 1 == len(day["totals"]["lateness"])
        assert day["points"][0]["at"] == day["begin"]
        hour, week = [await client.get(f"/api/v1/activity?span={span}") for span in ("1h", "7d")]
        assert [(each["step"], len(each["points"])) for each in (hour, week)] == [(60, 60), (3600, 168)]
        await client.refused(400, "GET", "/api/v1/activity?span=1y")
        with pytest.raises(InvalidValue, match="span"):
            await app.monitoring.activity("1y")  # type: ignore[arg-type]
