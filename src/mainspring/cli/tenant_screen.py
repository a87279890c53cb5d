"""The tenants of an execution for people: those that failed first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from ..core.tenant_runs import TenantRun
from .output import first_line, moment, status, took, without_distance
from .table import Way, print_table

MOST_TENANTS = 100
"""More would scroll away what failed: the list by tenant, or over HTTP, has them all."""


def print_tenants(found: Sequence[TenantRun], at: datetime) -> None:
    click.echo()
    titles: dict[str, Way] = {
        "TENANT": "keep",
        "STATUS": "keep",
        "TRY": "keep",
        "STARTED": "drop",
        "TOOK": "drop",
        "ERROR": "last",
    }
    rows: list[list[Any]] = [
        [
            run.tenant,
            status(run.status.value),
            f"{run.attempts}/{run.max_attempts}",
            moment(run.started_at, at),
            took(run.duration_ms),
            first_line(run.error) or run.reason or "",
        ]
        for run in found
    ]
    print_table(titles, rows, {3: without_distance})
    if len(found) == MOST_TENANTS:
        click.echo(f"These are the first {MOST_TENANTS}. One by name: mainspring executions list --tenant NAME")
