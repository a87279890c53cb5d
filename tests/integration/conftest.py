"""Every test that takes `nodes` runs on each store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import Nodes, count_threads_from_here


@pytest.fixture(autouse=True)
def threads_of_its_own() -> None:
    count_threads_from_here()


@pytest.fixture(params=["memory", "sqlite"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    return Nodes(request.param, tmp_path)


@pytest.fixture
def sqlite_nodes(tmp_path: Path) -> Nodes:
    return Nodes("sqlite", tmp_path)


@pytest.fixture
def memory_nodes(tmp_path: Path) -> Nodes:
    return Nodes("memory", tmp_path)
