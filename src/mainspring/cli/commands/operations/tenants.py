"""`mainspring tenants`: the busiest tenants."""

from __future__ import annotations

from typing import get_args

import click

from ....core.monitoring.busy_tenants import MOST, TenantOrder
from ....core.render.tenants import busy_tenant_json
from ...root import example
from ...screens.table import Column, print_table
from ...session import ClientSession, client_options
from ...terminal import echo


@example("tenants --sort failed --limit 5")
@click.command()
@click.option(
    "--sort",
    type=click.Choice(get_args(TenantOrder)),
    default="waiting",
    show_default=True,
    help="Sort by this, the greatest first.",
)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, MOST))
@client_options
def tenants(session: ClientSession, sort: TenantOrder, limit: int) -> None:
    """The busiest tenants, with their waiting and running executions and their failed attempts of the last 24 hours."""
    found = session.call(lambda app: app.tenants.busiest(sort, limit))

    def show() -> None:
        if not found:
            echo("Nothing waits, runs or has failed for a tenant.")
            return
        columns = [
            Column("TENANT", lambda view: view.tenant, "keep"),
            Column("WAITING", lambda view: f"{view.waiting:,}", right=True),
            Column("RUNNING", lambda view: f"{view.running:,}", right=True),
            Column("FAILED 24 H", lambda view: f"{view.failed:,}", right=True),
        ]
        print_table(columns, found)

    session.show([busy_tenant_json(view) for view in found], show)
