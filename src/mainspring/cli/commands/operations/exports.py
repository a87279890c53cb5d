"""`mainspring alerts` and `mainspring grafana`: alert rules and a dashboard, generated from the jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ....app.mainspring import Mainspring
from ...root import EXIT_CODES, CommandGroup, example
from ...screens.output import note
from ...session import ClientSession, source_options
from ...terminal import echo

LEFT_OUT = 3
"""The exit code if not every job has rules."""

Command = TypeVar("Command", bound=Callable[..., Any])


def export_options(formats: tuple[str, ...]) -> Callable[[Command], Command]:
    """Adds `--to` and `--output`, whose first format is the usual one; the command gets `to` and `output`."""
    to = click.option("--to", metavar="FILE", callback=_checked, help="The file to write  [default: standard output]")
    output = click.option(
        "-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True, help="The format."
    )
    return lambda command: to(output(command))


def _checked(ctx: click.Context, option: click.Parameter, value: str | None) -> Path | None:
    """Refuse a file that cannot be written before doing any work."""
    if value in (None, "-"):
        return None
    path = Path(str(value))
    if path.is_dir() or not path.parent.is_dir():
        why = "is a directory" if path.is_dir() else f"cannot be written: there is no directory {str(path.parent)!r}"
        raise click.BadParameter(f"{value!r} {why}", ctx, option)
    return path


def export(text: str, to: Path | None) -> None:
    if to is None:
        echo(text, nl=False)
        return
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.BadParameter(f"{str(to)!r} cannot be written: {error.strerror}", param_hint="--to") from None


@example("alerts export --to mainspring-rules.yml")
@click.group(cls=CommandGroup, epilog=f"{EXIT_CODES[:-1]}; 3 some jobs have no rules.")
def alerts() -> None:
    """Alert rules for Prometheus."""


@example("alerts export --to mainspring-rules.yml --slack 30s")
@alerts.command("export")
@export_options(("yaml", "json"))
@click.option(
    "--slack",
    metavar="DURATION",
    default="5s",
    show_default=True,
    help="How much later a job may be than its own rules allow.",
)
@source_options
def export_rules(session: ClientSession, to: Path | None, output: str, slack: str) -> int:
    """Rules for every job, with thresholds from its schedule, its timeout and how long its last runs took.

    Write them again when jobs change: after a deploy, and once there is some history. Jobs beyond the setting
    metrics_jobs have no metrics, so they get no rules; the exit code is then 3.
    """

    async def work(app: Mainspring) -> tuple[str, int, list[str]]:
        rules = await app.monitoring.alert_rules(slack, form="json" if output == "json" else "yaml")
        return rules, *await app.monitoring.left_out()

    text, left_out, some = session.call(work)
    export(text, to)
    if not left_out:
        return 0
    more = f" and {left_out - len(some):,} more" if left_out > len(some) else ""
    jobs = "1 job has" if left_out == 1 else f"{left_out:,} jobs have"
    note(
        f"{jobs} no rules, because there are more jobs than the setting metrics_jobs allows to have "
        f"metrics: {', '.join(some)}{more}"
    )
    return LEFT_OUT


@example("grafana export --to mainspring-dashboard.json")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def grafana() -> None:
    """A dashboard for Grafana."""


@example("grafana export --to mainspring-dashboard.json")
@grafana.command("export")
@export_options(("json",))
@source_options
def export_dashboard(session: ClientSession, to: Path | None, output: str) -> None:
    """The dashboard as JSON, to be imported into Grafana or provisioned."""
    export(session.call(lambda app: app.monitoring.grafana_dashboard()) + "\n", to)
