"""`mainspring alerts`: alert rules for Prometheus, made from the jobs."""

from __future__ import annotations

from typing import TextIO

import click

from .root import EXIT_CODES, CommandGroup
from .session import Session, source_options


@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def alerts() -> None:
    """Alert rules for Prometheus."""


@alerts.command("export")
@click.option("-o", "--output", "file", type=click.File("w"), default="-", help="The file to write  [default: shown]")
@click.option(
    "--slack",
    metavar="DURATION",
    default="5s",
    show_default=True,
    help="How much later than by its own rules a job may be.",
)
@source_options
def export_rules(session: Session, file: TextIO, slack: str) -> None:
    """Rules for every job, with thresholds from its schedule, its timeout and how long its last runs took.

    Write them again when jobs change: after a deploy, and once there is some history.
    """
    file.write(session.call(lambda app: app.alert_rules(slack)))
