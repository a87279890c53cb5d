"""`mainspring alerts`: alert rules for Prometheus, made from the jobs."""

from __future__ import annotations

from pathlib import Path

import click

from .exporting import export, export_options
from .root import EXIT_CODES, CommandGroup
from .session import Session, source_options


@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def alerts() -> None:
    """Alert rules for Prometheus."""


@alerts.command("export")
@export_options(("yaml", "json"))
@click.option(
    "--slack",
    metavar="DURATION",
    default="5s",
    show_default=True,
    help="How much later than by its own rules a job may be.",
)
@source_options
def export_rules(session: Session, to: Path | None, output: str, slack: str) -> None:
    """Rules for every job, with thresholds from its schedule, its timeout and how long its last runs took.

    Write them again when jobs change: after a deploy, and once there is some history.
    """
    export(session.call(lambda app: app.alert_rules(slack, form=output)), to)
