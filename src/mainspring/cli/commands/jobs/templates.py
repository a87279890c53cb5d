"""`mainspring templates`: named sets of a handler and options, and the jobs created from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ....app.mainspring import Mainspring
from ....core.commands.templates import Template
from ....core.render.entities import job_json, template_json
from ....core.views.job import JobView
from ...completion import names_of
from ...parameters import called, read_fields, taken_out
from ...root import EXIT_CODES, CommandGroup, example
from ...screens.jobs import print_job
from ...screens.output import compact, moment, print_fields
from ...screens.table import Column, print_table
from ...session import ClientSession, client_options, operator
from ...terminal import echo


@example("templates list", "templates apply nightly-crawl crawl-news --param url=/news")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def templates() -> None:
    """Templates: named sets of a handler, parameters, schedule and policies to create jobs from."""


@example("templates list")
@templates.command("list")
@client_options
def list_templates(session: ClientSession) -> None:
    """Every template, with its handler and schedule."""
    found = session.call(lambda app: app.templates.all())
    session.show([template_json(each) for each in found], lambda: _print_list(found))


@example("templates show nightly-crawl")
@templates.command("show")
@click.argument("name", shell_complete=names_of("template"))
@client_options
def show_template(session: ClientSession, name: str) -> None:
    """One template in full."""
    _show(session, session.call(lambda app: app.templates.get(name)))


@example('templates create nightly --handler crawl --schedule "0 3 * * *"')
@templates.command("create")
@click.argument("name")
@click.option(
    "--handler",
    required=True,
    shell_complete=names_of("handler"),
    help="The handler of jobs created from this template.",
)
@click.option("--schedule", metavar="CRON", help="Cron, such as '0 3 * * *', or '@every 30m'.")
@click.option("--timezone", metavar="ZONE", help="The zone of the schedule, such as Europe/Paris.")
@click.option("--params", metavar="JSON", help="Parameters as one JSON object; may be incomplete.")
@click.option(
    "--param",
    "pairs",
    metavar="KEY=VALUE",
    multiple=True,
    help="One parameter; a VALUE that is valid JSON is read as JSON.",
)
@click.option(
    "--option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    help="Any field of a job, such as queue=web or timeout=1m.",
)
@client_options
def create_template(session: ClientSession, name: str, handler: str, **given: Any) -> None:
    """Store a handler and fields of a job under a name."""

    async def work(app: Mainspring) -> Template:
        fields = read_fields(app, handler, **given)
        return await app.templates.create(name, handler, by=operator(), **fields)

    _show(session, called(session, work))


@example('templates update nightly-crawl --schedule "0 4 * * *"')
@templates.command("update")
@click.argument("name", shell_complete=names_of("template"))
@click.option("--handler", shell_complete=names_of("handler"), help="Another handler; the parameters must fit it.")
@click.option("--schedule", metavar="CRON", help="Another schedule.")
@click.option("--timezone", metavar="ZONE", help="Another zone.")
@click.option("--params", metavar="JSON", help="Parameters that replace all those of the template.")
@click.option("--param", "pairs", metavar="KEY=VALUE", multiple=True, help="One parameter; the others stay.")
@click.option("--option", "options", metavar="KEY=VALUE", multiple=True, help="Any other field of a job.")
@click.option("--without", metavar="FIELD", multiple=True, help="Remove this field; may be repeated.")
@client_options
def update_template(
    session: ClientSession, name: str, handler: str | None, without: Sequence[str], **given: Any
) -> None:
    """Change the given fields. Jobs that were created from it stay as they are."""

    async def work(app: Mainspring) -> Template:
        fields = read_fields(app, handler or (await app.templates.get(name)).handler, **given)
        if handler is None and not fields and not without:
            raise click.UsageError("nothing to change; give --handler, --schedule, --param, --option or --without")
        return await app.templates.update(name, handler=handler, by=operator(), **{**taken_out(without), **fields})

    _show(session, called(session, work))


@example("templates delete nightly-crawl")
@templates.command("delete")
@click.argument("name", shell_complete=names_of("template"))
@client_options
def delete_template(session: ClientSession, name: str) -> None:
    """Remove a template. Jobs that were created from it stay."""
    session.call(lambda app: app.templates.remove(name, by=operator()))
    session.show({"removed": name}, lambda: echo(f"template {name!r} removed; jobs created from it stay"))


@example("templates apply nightly-crawl crawl-news --param url=/news")
@templates.command("apply")
@click.argument("template", shell_complete=names_of("template"))
@click.argument("name", required=False)
@click.option("--schedule", metavar="CRON", help="Another schedule.")
@click.option("--timezone", metavar="ZONE", help="Another zone.")
@click.option("--params", metavar="JSON", help="Parameters on top of those of the template.")
@click.option("--param", "pairs", metavar="KEY=VALUE", multiple=True, help="One parameter.")
@click.option("--option", "options", metavar="KEY=VALUE", multiple=True, help="Any other field of a job.")
@client_options
def apply_template(session: ClientSession, template: str, name: str | None, **given: Any) -> None:
    """Create a job from a template, under a generated name if none is given."""

    async def work(app: Mainspring) -> JobView:
        handler = (await app.templates.get(template)).handler
        return await app.templates.apply(template, name, by=operator(), **read_fields(app, handler, **given))

    view = called(session, work)
    session.show(job_json(view), lambda: print_job(view))


def _show(session: ClientSession, template: Template) -> None:
    session.show(template_json(template), lambda: _print_one(template))


def _print_list(found: Sequence[Template]) -> None:
    if not found:
        echo("No templates. Create one with: mainspring templates create NAME --handler HANDLER")
        return
    columns = [
        Column("TEMPLATE", lambda each: each.name),
        Column("HANDLER", lambda each: each.handler),
        Column("SCHEDULE", lambda each: _schedule(each) or "", "cut"),
        Column("CHANGED", lambda each: moment(each.updated_at), "drop"),
        Column("BY", lambda each: each.by, "drop"),
    ]
    print_table(columns, found)


def _print_one(template: Template) -> None:
    shape = template_json(template)
    print_fields(
        {
            "template": template.name,
            "description": shape["description"],
            "handler": template.handler,
            "schedule": _schedule(template),
            "zone": shape["timezone"],
            "params": compact(shape["params"]),
            "metadata": compact(shape["metadata"]),
            "options": compact(shape["options"]),
            "changed": f"{moment(template.updated_at)} by {template.by}",
        }
    )


def _schedule(template: Template) -> str | None:
    trigger = template.trigger
    return None if trigger is None else f"{trigger.describe()}  [{trigger.expression()}]"
