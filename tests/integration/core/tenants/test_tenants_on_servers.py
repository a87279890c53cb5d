"""Jobs with tenants on the databases that are servers. What is imported is collected here once more, with these
`nodes`."""

# ruff: noqa: F401

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.core.tenants.test_tenants import (
    test_a_parent_counts_all_its_tenants_however_little_is_kept,
    test_a_parent_that_waits_makes_way_and_takes_its_tenants_along,
    test_a_tenant_that_fails_stops_nobody_and_is_run_again_alone,
    test_cancelling_a_parent_stops_its_tenants,
    test_each_window_of_a_backfill_runs_for_every_tenant,
    test_no_more_tenants_at_once_than_allowed,
    test_tenants_start_in_the_order_of_their_list,
    test_tenants_that_end_one_by_one_end_their_parent_without_the_safety_net,
    test_the_handler_runs_once_for_each_tenant,
    test_without_continue_on_failure_those_that_have_not_started_are_cancelled,
)
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import Nodes


@pytest.fixture(params=["postgres", "mongo"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    server = postgres() if request.param == "postgres" else mongo("replica_set")
    return Nodes(request.param, tmp_path, server.migrated_database())
