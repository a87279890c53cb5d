"""Flows, templates and bulk commands on the databases that are servers, collected here once more with these `nodes`."""

# ruff: noqa: F401

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.core.dependencies.test_on_nodes import (
    test_a_diamond_on_two_nodes_meets_once_for_each_run,
    test_many_at_once_are_done_or_refused_one_by_one,
    test_templates_are_kept_changed_and_removed,
)
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import Nodes


@pytest.fixture(params=["postgres", "mongo"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    server = postgres() if request.param == "postgres" else mongo("replica_set")
    return Nodes(request.param, tmp_path, server.migrated_database())
