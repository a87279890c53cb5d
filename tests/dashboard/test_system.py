"""The page System shows what `mainspring doctor` finds in a moment."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring import every
from tests.dashboard.support import pages_of, text_of
from tests.support import Nodes


@pytest.mark.req("DSH-1", "DEV-2")
async def test_the_page_shows_findings_with_their_remedies(nodes: Nodes) -> None:
    app = nodes.app(roles="worker", lease="5s")

    @app.job("tidy", trigger=every(minutes=5))
    async def tidy(ctx: Any) -> None: ...

    async with app, pages_of(app) as pages:
        page = text_of(await pages.get("system"))
    assert "not all checks pass" in page
    assert "the store has jobs with schedules, but no scheduler is running" in page
    assert "Start a process with the role scheduler: mainspring run MODULE:APP" in page
    assert "Set lease to 30s, the default, or more" in page
    assert "Access : well nothing is open that should not be" in page
    await app.close()
