"""A selection of the tests of the HTTP interface, on the databases that are servers; what is imported is collected here
once more, and finds the `nodes` below."""

# ruff: noqa: F401

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.test_cluster import (
    test_a_lock_is_shown_and_released_by_an_administrator,
    test_bulk_commands_on_executions,
    test_every_change_leaves_who_what_when_before_after_and_the_request,
    test_what_a_running_job_holds_is_in_the_list_and_only_its_end_releases_it,
)
from tests.api.test_commands import (
    test_commands_at_the_same_time_lose_no_update,
    test_many_triggers_at_once_of_a_job_that_skips_run_it_once,
)
from tests.api.test_errors import test_the_shape_and_the_status
from tests.api.test_executions import (
    test_the_list_is_filtered_and_paged,
    test_the_stream_tells_everything_up_to_the_end,
)
from tests.api.test_hooks import (
    test_a_signed_delivery_triggers_the_job_once,
    test_the_same_delivery_many_times_at_once_triggers_once,
)
from tests.api.test_idempotency import (
    test_it_survives_a_restart,
    test_many_at_once_under_one_key_do_it_once,
    test_the_same_key_and_request_trigger_once,
)
from tests.api.test_jobs import (
    many,
    test_a_purge_removes_the_history_and_a_new_incarnation_starts_over,
    test_executions_and_numbers_of_a_job,
    test_if_match_is_honoured_and_not_required,
    test_jobs_are_filtered_sorted_and_paged,
)
from tests.api.test_metrics import (
    test_the_last_success_is_known_after_a_failure,
    test_totals_come_from_the_store_and_the_rest_from_this_process,
)
from tests.api.test_missed_runs import test_pages_go_on_from_their_cursor_and_filters_combine
from tests.api.test_sorting import (
    test_executions_are_listed_from_the_oldest,
    test_the_audit_is_read_from_its_beginning,
)
from tests.api.test_webhooks import test_an_endpoint_from_creation_to_removal
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import Nodes


@pytest.fixture(params=["postgres", "mongo"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    server = postgres() if request.param == "postgres" else mongo("replica_set")
    return Nodes(request.param, tmp_path, server.migrated_database())
