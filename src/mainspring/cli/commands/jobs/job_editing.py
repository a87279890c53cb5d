"""`mainspring jobs edit` and `mainspring jobs why`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ....app.mainspring import Mainspring
from ....core.monitoring.why import Reason
from ....core.render.entities import job_json, why_json
from ....core.views.job import JobView
from ...completion import names_of
from ...parameters import called, read_fields, taken_out
from ...root import example
from ...screens.jobs import print_job
from ...screens.output import note, print_fields, print_lines, status, with_local_times
from ...session import ClientSession, client_options, operator

_REMEDIES = {
    "paused": "mainspring jobs resume {job}",
    "cancelled": "mainspring jobs reactivate {job}",
    "queue_paused": "mainspring queues resume {queue}",
    "handler_paused": "mainspring handlers resume {handler}",
    "no_worker": "mainspring run MODULE:APP",
    "no_scheduler": "mainspring run MODULE:APP --roles scheduler",
    "draining": "mainspring workers list, then mainspring workers undrain ID",
    "slots_busy": "mainspring executions list --longest",
    "limit_reached": "mainspring locks list",
}
"""The next command for a reason, by its code."""


@example('jobs edit crawl --schedule "*/10 * * * *" --option max_attempts=5', "jobs edit crawl --without timeout")
@click.command("edit")
@click.argument("name", shell_complete=names_of("job"))
@click.option("--schedule", metavar="CRON", help="Another schedule: cron, such as '0 3 * * *', or '@every 30m'.")
@click.option("--timezone", metavar="ZONE", help="The zone of the schedule, such as Europe/Paris.")
@click.option("--params", metavar="JSON", help="Parameters that replace all those of the job.")
@click.option("--param", "pairs", metavar="KEY=VALUE", multiple=True, help="One parameter; the others stay.")
@click.option(
    "--option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    help="Any other field, such as max_attempts=5, queue=web or timeout=1m; a VALUE that is valid JSON is parsed.",
)
@click.option("--without", metavar="FIELD", multiple=True, help="Remove this field, such as schedule or timeout.")
@client_options
def edit_job(session: ClientSession, name: str, without: Sequence[str], **given: Any) -> None:
    """Change the named fields of a job and leave the rest.

    A change to a job that code declares survives deploys, until `jobs revert` takes it back.
    """
    if not without and not any(given.values()):
        raise click.UsageError("nothing to change; give --schedule, --timezone, --param, --option or --without")
    if (given["params"] or given["pairs"]) and not session.knows_handlers:
        note("parameters are not checked here: give --app MODULE:APP to check them")

    async def work(app: Mainspring) -> JobView:
        view = await app.job_view(name)
        changes = {**taken_out(without), **read_fields(app, view.handler, **given)}
        if given["pairs"] and given["params"] is None:  # on top of the parameters it has now
            changes["params"] = {**view.params, **changes["params"]}
            return await app.update_job(name, by=operator(), seen=view.tag, **changes)
        return await app.update_job(name, by=operator(), **changes)

    view = called(session, work)
    session.show(job_json(view), lambda: print_job(view))


@example("jobs why crawl")
@click.command("why")
@click.argument("name", shell_complete=names_of("job"))
@client_options
def why_job(session: ClientSession, name: str) -> None:
    """Why is a job not running? Obstacles come first."""
    view, reasons = session.call(lambda app: app.why(name))
    session.show(why_json(view, reasons), lambda: _print_why(view, reasons))


def _print_why(view: JobView, reasons: Sequence[Reason]) -> None:
    blocked = any(reason.blocking for reason in reasons)
    print_fields({"job": view.name, "status": status(view.state.value), "can run": "no" if blocked else "yes"})
    remedies = {reason.code: _REMEDIES[reason.code] for reason in reasons if reason.code in _REMEDIES}
    for title, blocking in (("obstacles", True), ("status", False)):
        if lines := [with_local_times(reason.message) for reason in reasons if reason.blocking is blocking]:
            print_lines(lines, title)
    if remedies:
        print_lines((each.format(**_names(view, reasons)) for each in remedies.values()), "what to do")


def _names(view: JobView, reasons: Sequence[Reason]) -> dict[str, str]:
    """The names in the remedies; a reason names the queue or the handler that is paused."""
    named: dict[str, str] = {
        key: each.details[key] for each in reasons for key in ("queue", "handler") if key in each.details
    }
    return {"job": view.name, "queue": view.queue, "handler": view.handler, **named}
