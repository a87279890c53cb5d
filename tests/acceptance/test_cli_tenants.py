"""Tenants on the command line, as operators use it: real processes, a real SQLite file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.command_line import CommandLine
from tests.support import until_blocking

APP = "--app=shop:app"

SHOP = """
from pathlib import Path
from mainspring import Mainspring

app = Mainspring("sqlite:///shop.db", poll_interval="1s", stop_timeout="10s")


@app.job("invoices", tenants=["acme", "globex", "initech"], tenant_max_attempts=1)
async def invoices(ctx) -> None:
    if ctx.tenant == "globex" and not Path("mended").exists():
        raise ValueError("it does not answer")
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    yield command_line
    command_line.close()


@pytest.mark.req("TEN-3", "TEN-4", "OPS-4")
def test_failed_tenants_are_shown_first_and_run_again_alone(cli: CommandLine, tmp_path: Path) -> None:
    cli.serve()
    parent = cli.json("jobs", "trigger", "invoices", "--wait", APP, code=1)
    assert (parent["status"], parent["counters"]) == ("partial", {"total": 3, "success": 2, "failed": 1})
    assert next(run["tenant"] for run in parent["tenants"]) == "globex"
    shown = cli.text("executions", "show", parent["id"], APP)
    table = shown[shown.index("TENANT") :].splitlines()
    assert table[1].split()[:3] == ["globex", "failed", "1/1"]
    assert "it does not answer" in table[1]
    assert {line.split()[0] for line in table[2:4]} == {"acme", "initech"}

    refused = cli("jobs", "retry", "invoices", APP)
    assert (refused.returncode, f"executions retry {parent['id']} --failed-only" in refused.stderr) == (1, True)
    (tmp_path / "mended").touch()
    again = cli.json("executions", "retry", parent["id"], "--failed-only", APP)
    assert (again["trigger"], again["retry_of"]) == ("retry", parent["id"])
    some = cli.json("jobs", "trigger", "invoices", "--tenant", "acme", "--tenant", "initech", "--wait", APP)
    assert (some["status"], some["counters"]["total"]) == ("completed", 2)
    over = cli.json("executions", "show", again["id"], APP)
    assert [run["tenant"] for run in over["tenants"]] == ["globex"]

    def noisy() -> bool:
        return any(item["failed"] for item in cli.json("tenants", "--sort", "failed", APP))

    until_blocking(noisy)
    table = cli.text("tenants", "--sort", "failed", "--limit", "1", APP).splitlines()
    assert (table[0].split(), table[1].split()) == (
        ["TENANT", "WAITING", "RUNNING", "FAILED", "24", "H"],
        ["globex", "0", "0", "1"],
    )
