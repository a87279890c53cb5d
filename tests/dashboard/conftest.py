"""Pages are tested on memory: what stores find is tested with the queries that the pages share with the API."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import Nodes


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    return Nodes("memory", tmp_path)
