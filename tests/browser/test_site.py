"""The sites that the other tests look at."""

from __future__ import annotations

import httpx
import pytest

from tests.browser.site import Site


@pytest.mark.req("DSH-2")
def test_a_site_with_tokens_asks_for_one(guarded_site: Site) -> None:
    def status(**headers: str) -> int:
        return httpx.get(f"{guarded_site.address}/api/v1/jobs", headers=headers).status_code

    assert status() == 401
    assert [status(authorization=f"Bearer {token}") for token in guarded_site.tokens.values()] == [200] * 3


@pytest.mark.req("OPS-1")
def test_a_mounted_site_is_below_its_prefix(mounted_site: Site) -> None:
    assert mounted_site.address.endswith("/jobs-admin")
    assert httpx.get(f"{mounted_site.address}/api/v1/jobs").json()["items"]
