"""`mainspring grafana`: a dashboard for Grafana, made from the jobs."""

from __future__ import annotations

from pathlib import Path

import click

from .exporting import export, export_options
from .root import EXIT_CODES, CommandGroup
from .session import Session, source_options


@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def grafana() -> None:
    """A dashboard for Grafana."""


@grafana.command("export")
@export_options(("json",))
@source_options
def export_dashboard(session: Session, to: Path | None, output: str) -> None:
    """The dashboard as JSON, to be imported into Grafana or provisioned."""
    export(session.call(lambda app: app.grafana_dashboard()) + "\n", to)
