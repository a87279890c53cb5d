"""Waiting for an end that does not come: the time is over when it is over, on every database."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import DEADLINE, Nodes

SHORT = (0.0, 0.0005, 0.001, 0.002, 0.004)
"""Seconds: some of them are over while the database is being asked."""
ROUNDS = 40


@pytest.mark.req("API-7")
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mongo"])
async def test_short_waits_end_in_the_middle_of_whatever(kind: str, tmp_path: Path) -> None:
    servers = {"postgres": postgres, "mongo": lambda: mongo("replica_set")}
    nodes = Nodes(kind, tmp_path, servers[kind]().new_database() if kind in servers else None)
    async with nodes.client() as app:
        app.job("never")(lambda: None)  # nobody works here
        waiting = await app.enqueue("never")
        assert waiting is not None
        for seconds in SHORT * ROUNDS:
            async with asyncio.timeout(DEADLINE):
                with pytest.raises(TimeoutError, match="it is pending"):
                    await app.wait(waiting, timeout=seconds)
