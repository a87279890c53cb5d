"""The dashboard of a busy application, read by following its links: every link works whatever a thing is called, texts
of users show as texts, and viewers are offered no action."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from mainspring.model.values.access import Role
from tests.api.client import LOCAL
from tests.api.dashboard_crawler import Crawl
from tests.browser.application import ODD_TENANT, Shop, probe
from tests.receiver import receiving

PREFIX = "/tools/jobs-admin"
PROBES = (
    *("error", "log", "progress", "description", "note", "tag", "answer"),
    *("endpoint", "backfill", "bulk", "queue", "mute"),
)
IN_JSON = ("params", "result", "metadata")
FURTHER = (ODD_TENANT, "<b>actor</b>", "<b>owner</b>", "v1-<b>'release'</b>", "9007199254740993")


@asynccontextmanager
async def _crawl(folder: Path, role: Role, **most: Any) -> AsyncIterator[Crawl]:
    """Through the dashboard as somebody with this role sees it, below a prefix of another site."""
    shop = Shop(folder, roles="scheduler,worker", api_tokens=True)
    host = FastAPI()
    host.mount(PREFIX, shop.app.asgi())
    async with shop.app, receiving() as receiver:
        await shop.seed(receiver)
        token = (await shop.app.tokens.create("crawler", role)).text.reveal()
        transport = httpx.ASGITransport(host, client=LOCAL)
        headers = {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://site.example", headers=headers) as http:
            yield await Crawl(http, f"{PREFIX}/dashboard", **most).read()


@pytest.mark.req("DSH-1", "DSH-2", "OPS-1")
async def test_every_link_works_and_texts_of_users_are_texts(tmp_path: Path) -> None:
    async with _crawl(tmp_path, Role.ADMIN) as crawl:
        assert crawl.problems == []
        texts = "\n".join(page.text for page in crawl.pages.values())
        wanted = [*map(probe, PROBES), *(json.dumps(probe(field), ensure_ascii=False) for field in IN_JSON), *FURTHER]
        assert [text for text in wanted if text not in texts] == []


@pytest.mark.req("DSH-2")
async def test_viewers_are_offered_no_action(tmp_path: Path) -> None:
    """No form, and no link to one that they may not open."""
    async with _crawl(tmp_path, Role.VIEWER, things=5) as crawl:
        assert crawl.problems == []
        forms = {
            path: [form for form in page.forms if not form.endswith("/logout")] for path, page in crawl.pages.items()
        }
        assert {path: found for path, found in forms.items() if found} == {}
