"""Backfills on the databases that are servers. What is imported is collected here once more, with these `nodes`."""

# ruff: noqa: F401

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.core.backfills.test_backfill import (
    test_a_backfill_on_a_running_node,
    test_a_success_that_is_not_kept_is_entered_all_the_same,
    test_two_nodes_keep_one_cap_and_a_cancel_reaches_what_runs,
)
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import Nodes


@pytest.fixture(params=["postgres", "mongo"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    server = postgres() if request.param == "postgres" else mongo("replica_set")
    return Nodes(request.param, tmp_path, server.migrated_database())
