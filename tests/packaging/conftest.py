"""One build of both distributions for all tests of this suite."""

from __future__ import annotations

import pytest

from tests.packaging.distributions import ROOT, Distributions, build


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    return Distributions.found_in(folder)
