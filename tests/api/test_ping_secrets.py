"""Addresses of dead-man's switches: whole for those who may change them, a host for everybody else."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring import Mainspring, every
from mainspring.cli.screens.jobs import print_job
from mainspring.core.render.entities import job_json
from mainspring.core.render.masking import masked
from mainspring.core.rules.pings import check_ping
from mainspring.model.errors import InvalidValue
from tests.api.access_support import SECRET
from tests.api.test_roles import Someone
from tests.support import Nodes

pytestmark = pytest.mark.req("SEC-4", "OBS-6")

TOKEN = "d34d-m4n"
ADDRESS = f"https://hc.example:8443/{TOKEN}?key={TOKEN}"
HOST = "https://hc.example:8443/..."
ROUTES = ("/api/v1/jobs", "/api/v1/jobs/job", "/api/v1/templates", "/api/v1/templates/nightly", "/api/v1/audit")


async def _with_addresses(app: Mainspring) -> None:
    await app.update_job("job", ping=ADDRESS, params={"ping": "a parameter"}, by="ada")
    await app.update_job("payout", ping={"failure": ADDRESS}, by="ada")
    await app.templates.create("nightly", "job", ping=ADDRESS, by="ada")
    await app.templates.apply("nightly", "made", by="ada")


async def _told(app: Mainspring, role: str) -> dict[str, str]:
    return {path: (await Someone(app, role).ask("GET", path)).text for path in (*ROUTES, "/api/v1/jobs/payout")}


async def test_who_may_not_change_an_address_reads_its_host(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(jwt_secret=SECRET)

    @app.job("job", trigger=every(hours=1))
    async def job(ping: str = "") -> None: ...

    app.job("payout", trigger=every(hours=1), trigger_role="admin")(lambda: None)
    await _with_addresses(app)
    for path, text in (await _told(app, "viewer")).items():
        assert TOKEN not in text, path
        assert HOST in text, path
    assert "a parameter" in (await _told(app, "viewer"))["/api/v1/jobs/job"]
    whole = {path: TOKEN in text for path, text in (await _told(app, "operator")).items()}
    assert whole == {path: path not in ("/api/v1/audit", "/api/v1/jobs/payout") for path in whole}
    payout = await Someone(app, "operator").ask("GET", "/api/v1/jobs/payout")
    assert payout.json()["overrides"] == {"ping": {"failure": HOST}}
    assert all(TOKEN in text for text in (await _told(app, "admin")).values())
    await app.close()


async def test_the_command_line_shows_its_host(memory_nodes: Nodes, capsys: pytest.CaptureFixture[str]) -> None:
    app = memory_nodes.app()
    app.job("job", trigger=every(hours=1))(lambda: None)
    view = await app.update_job("job", ping=ADDRESS, by="ada")
    print_job(view)
    screen = capsys.readouterr().out
    assert TOKEN not in screen
    assert "hc.example" in screen
    assert job_json(view)["overrides"] == {"ping": {"success": HOST}}
    await app.close()


@pytest.mark.parametrize("given", [[ADDRESS], {ADDRESS: "x"}, {"success": f"ftp://{TOKEN}"}, {"success": 1}])
def test_what_is_no_address_is_refused_without_repeating_it(given: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        check_ping(given)
    assert TOKEN not in str(refused.value)


def test_addresses_that_cannot_be_read_are_hidden_whole() -> None:
    assert masked({"ping": {"success": f"https://[{TOKEN}"}}) == {"ping": {"success": "..."}}
