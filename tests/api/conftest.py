"""Every test that takes `nodes` runs on memory and on SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import Nodes


@pytest.fixture(params=["memory", "sqlite"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    return Nodes(request.param, tmp_path)


@pytest.fixture
def memory_nodes(tmp_path: Path) -> Nodes:
    return Nodes("memory", tmp_path)
