"""A selection of the tests of the application object, on the databases that are servers.

What the whole selection is about is decided outside the stores, and tried at length on memory and SQLite; here a few of
each subject show that an application is the same whatever its address says. What is imported is collected here
once more, and finds the `nodes` below.
"""

# ruff: noqa: F401

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.core.commands.test_enqueue import (
    test_a_key_is_held_through_retries,
    test_an_enqueue_that_is_skipped_says_so,
    test_bulk_keeps_the_order_and_applies_options,
    test_one_of_many_concurrent_enqueues_of_a_key_wins,
    test_the_key_switches_at_first_pick_up,
    test_what_an_enqueue_returns_is_what_is_stored,
)
from tests.integration.core.commands.test_states import (
    test_a_manual_retry_is_a_new_execution_with_the_same_parameters_and_window,
    test_an_exception_is_retried_and_every_attempt_is_kept,
    test_cancelling_a_job_stops_what_it_has_alive_and_reactivating_plans_it,
    test_commands_at_once_lose_no_update,
    test_pause_while_running_lets_the_run_finish_and_stops_new_ticks,
    test_retry_after_counts_no_failure_and_a_normal_return_is_done,
)
from tests.integration.core.commands.test_unique_periods import (
    test_a_process_that_stalls_before_it_enqueues_comes_too_late,
    test_debounced_at_once_leaves_one,
    test_many_at_once_take_the_key_once,
)
from tests.integration.core.engine.test_run_timeout import (
    test_a_parent_whose_time_is_up_fails_and_its_tenants_are_cancelled,
    test_a_run_that_takes_too_long_is_stopped_and_fails,
)
from tests.integration.core.engine.test_schedules import (
    test_a_job_changed_elsewhere_wakes_the_scheduler,
    test_allow_with_a_limit,
    test_cancel_running_makes_way_for_the_new_one,
    test_queue_lets_one_wait,
    test_skip_holds_across_nodes_for_schedule_trigger_and_enqueue,
    test_the_scheduler_sleeps_to_the_next_due_instant,
)
from tests.integration.core.errors.test_error_groups import (
    test_failures_are_found_by_their_keys_and_grouped_by_their_error,
)
from tests.integration.core.test_back_dated import (
    test_an_absence_is_caught_up_one_after_another,
    test_one_is_moved_and_one_is_skipped,
)
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import Nodes


@pytest.fixture(params=["postgres", "mongo"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    server = postgres() if request.param == "postgres" else mongo("replica_set")
    return Nodes(request.param, tmp_path, server.migrated_database())
