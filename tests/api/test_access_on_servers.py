"""API tokens on the databases that are servers: what is imported is collected here once more, with these `nodes`."""

# ruff: noqa: F401

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.test_access_tokens import (
    test_a_revoked_token_opens_nothing_within_seconds,
    test_a_token_opens_what_its_role_opens,
    test_making_and_revoking_leave_their_records,
    test_noting_a_use_never_brings_a_revoked_token_back,
    test_the_last_use_is_noted_at_most_once_a_minute,
)
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import Nodes


@pytest.fixture(params=["postgres", "mongo"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    server = postgres() if request.param == "postgres" else mongo("replica_set")
    return Nodes(request.param, tmp_path, server.migrated_database())
