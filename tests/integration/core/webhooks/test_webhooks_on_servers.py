"""Webhooks on the databases that are servers. What is imported is collected here once more, with these `nodes`."""

# ruff: noqa: F401

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.core.webhooks.test_webhooks import test_every_event_reaches_the_endpoints_that_want_it
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import Nodes


@pytest.fixture(params=["postgres", "mongo"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    server = postgres() if request.param == "postgres" else mongo("replica_set")
    return Nodes(request.param, tmp_path, server.migrated_database())
