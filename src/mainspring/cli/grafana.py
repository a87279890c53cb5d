"""`mainspring grafana`: a dashboard for Grafana, made from the jobs."""

from __future__ import annotations

from typing import TextIO

import click

from .root import EXIT_CODES, CommandGroup
from .session import Session, source_options


@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def grafana() -> None:
    """A dashboard for Grafana."""


@grafana.command("export")
@click.option("-o", "--output", "file", type=click.File("w"), default="-", help="The file to write  [default: shown]")
@source_options
def export_dashboard(session: Session, file: TextIO) -> None:
    """The dashboard as JSON, to be imported into Grafana or provisioned."""
    file.write(session.call(lambda app: app.grafana_dashboard()) + "\n")
