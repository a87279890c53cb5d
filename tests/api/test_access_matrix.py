"""The access matrix of the real interface: every operation of its OpenAPI document x every way to ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring import JobContext, Mainspring
from mainspring.server.api import create_api
from tests.api.access_matrix import cases, mismatches, operations

pytestmark = [pytest.mark.req("SEC-1"), pytest.mark.req("SEC-2")]


async def test_every_operation_answers_every_way_to_ask_as_its_role_demands(tmp_path: Path) -> None:
    app = Mainspring("memory://")

    @app.job("greet")
    async def greet(ctx: JobContext, name: str) -> None: ...

    try:
        api = create_api(app._runtime)
        asked = operations(api, api.openapi())
        asked = [each for each in asked if str(each) != "POST /dashboard/login"]  # a failed login of its own
        assert len(asked) >= 30
        assert "/openapi.json" in {operation.path for operation in asked}  # it names the handlers
        found = [finding for case in cases(tmp_path) for finding in await mismatches(api, asked, case)]
        assert found == []
    finally:
        await app.close()
