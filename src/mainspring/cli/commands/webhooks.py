"""`mainspring webhooks`: where events are sent, and what became of each delivery."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, get_args

import click

from ...app.mainspring import Mainspring
from ...core.render.entities import execution_json
from ...core.render.webhooks import new_webhook_json, webhook_json
from ...core.views.execution import Execution
from ...core.views.webhooks import NewWebhook, WebhookView
from ...core.webhooks.endpoints import Format
from ...core.webhooks.events import EVENTS
from ...model.errors import JobNotFound
from ...model.execution import State, Status
from ...model.values.reading import duration
from ...model.values.webhook_signatures import Scheme
from ..completion import names_of
from ..many import run_bulk
from ..parameters import short_id
from ..root import EXIT_CODES, CommandGroup, example
from ..screens.output import first_line, moment, note, print_fields, status, took, without_distance
from ..screens.table import Column, print_table
from ..session import ClientSession, client_options, operator
from ..terminal import echo
from .hooks import secret_from

_ID = click.argument("id", metavar="ID", shell_complete=names_of("webhook"))
_SECRET = click.option(
    "--secret-file",
    metavar="FILE",
    help="A file with the secret, or - for standard input  [default: a new one is generated]",
)


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, what in (
        ("tenant", "Only events of this tenant; may be given again."),
        ("queue", "Only executions in this queue; may be given again."),
        ("job", "Only this job; may be given again."),
    ):
        command = click.option(f"--{name}", f"{name}s", metavar="NAME", multiple=True, help=what)(command)
    events = click.option(
        "--event", "events", metavar="EVENT", multiple=True, help="Only this event; may be given again."
    )
    return click.option("--description", metavar="TEXT", help="For people.")(events(command))


@example("webhooks list", "webhooks test chat --wait 10s")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def webhooks() -> None:
    """Outgoing webhooks: endpoints to which events are sent."""


@example("webhooks list")
@webhooks.command("list")
@client_options
def list_webhooks(session: ClientSession) -> None:
    """Every endpoint, with its events and whether deliveries succeed; without secrets."""
    found = session.call(lambda app: app.webhooks.all())
    session.show([webhook_json(view) for view in found], lambda: _print_list(found))


@example("webhooks show chat")
@webhooks.command("show")
@_ID
@client_options
def show_webhook(session: ClientSession, id: str) -> None:
    """One endpoint in full."""
    view = session.call(lambda app: app.webhooks.get(id))
    session.show(webhook_json(view), lambda: _print_one(view))


@example(
    "webhooks create https://example.com/hook --event execution.failed",
    "webhooks create - --id chat --format slack < url.txt",
)
@webhooks.command("create", epilog=f"Events: {', '.join(EVENTS)}.")
@click.argument("url")
@click.option("--id", metavar="ID", help="An id of your choice  [default: generated]")
@click.option("--format", "kind", default="standard", show_default=True, type=click.Choice(get_args(Format)))
@click.option("--scheme", default="v1", show_default=True, type=click.Choice(get_args(Scheme)))
@click.option("--disabled", is_flag=True, help="Create it disabled: nothing is sent to it yet.")
@_SECRET
@_filters
@client_options
def create_webhook(
    session: ClientSession,
    url: str,
    id: str | None,
    kind: Any,
    scheme: Any,
    disabled: bool,
    secret_file: str | None,
    **fields: Any,
) -> None:
    """Create an endpoint: events are sent to this address (- reads it from standard input). The secret is printed once:
    save it now."""
    address = sys.stdin.readline().strip() if url == "-" else url
    secret = secret_from(secret_file)

    async def work(app: Mainspring) -> NewWebhook:
        made = await app.webhooks.create(
            address,
            id=id,
            format=kind,
            scheme=scheme,
            secret=secret,
            enabled=not disabled,
            by=operator(),
            **{name: value for name, value in fields.items() if value},
        )
        await _warn_of_unknown_jobs(app, fields["jobs"])
        return made

    made = session.call(work)
    _show_new(session, made, f"webhook {made.webhook.id} created for {made.webhook.url}")


@example("webhooks edit chat --event job.paused --all jobs")
@webhooks.command("edit")
@_ID
@click.option("--url", metavar="URL", help="The new address; - reads it from standard input.")
@click.option(
    "--all",
    "cleared",
    multiple=True,
    type=click.Choice(["events", "jobs", "queues", "tenants"]),
    help="Lift this restriction; may be given again.",
)
@_filters
@client_options
def edit_webhook(session: ClientSession, id: str, url: str | None, cleared: Sequence[str], **fields: Any) -> None:
    """Change the given fields of an endpoint and leave the rest."""
    changes: dict[str, Any] = dict.fromkeys(cleared)
    changes |= {name: value for name, value in fields.items() if value}
    if url is not None:
        changes["url"] = sys.stdin.readline().strip() if url == "-" else url
    if not changes:
        raise click.UsageError(
            "nothing to change; give --url, --event, --job, --queue, --tenant, --description or --all"
        )

    async def work(app: Mainspring) -> WebhookView:
        view = await app.webhooks.update(id, by=operator(), **changes)
        await _warn_of_unknown_jobs(app, fields["jobs"])
        return view

    view = session.call(work)
    session.show(webhook_json(view), lambda: _print_one(view))


async def _warn_of_unknown_jobs(app: Mainspring, names: Sequence[str]) -> None:
    """A job may be declared later, but a slip in its name would mean silence."""
    for name in names:
        try:
            await app.job_view(name)
        except JobNotFound as error:
            note(f"nothing is sent for {name!r} until there is such a job: {error}")


@example("webhooks enable chat")
@webhooks.command("enable")
@_ID
@client_options
def enable_webhook(session: ClientSession, id: str) -> None:
    """Enable an endpoint again. `webhooks replay` sends the deliveries that were cancelled meanwhile."""
    view = session.call(lambda app: app.webhooks.enable(id, by=operator()))
    session.show(webhook_json(view), lambda: echo(f"webhook {id} enabled"))


@example('webhooks disable chat --note "it moves"')
@webhooks.command("disable")
@_ID
@click.option("--note", help="Why.")
@client_options
def disable_webhook(session: ClientSession, id: str, note: str | None) -> None:
    """Disable an endpoint: nothing more is sent to it, and waiting deliveries are cancelled."""
    view = session.call(lambda app: app.webhooks.disable(id, reason=note, by=operator()))
    session.show(webhook_json(view), lambda: echo(f"webhook {id} disabled"))


@example("webhooks rotate chat --overlap 48h")
@webhooks.command("rotate")
@_ID
@click.option(
    "--overlap", default="24h", show_default=True, help="How long messages are signed with the old secret, too."
)
@_SECRET
@client_options
def rotate_webhook(session: ClientSession, id: str, overlap: str, secret_file: str | None) -> None:
    """Give an endpoint a new secret, which is printed once: save it now."""
    secret = secret_from(secret_file)
    made = session.call(lambda app: app.webhooks.rotate_secret(id, overlap=overlap, secret=secret, by=operator()))
    _show_new(session, made, f"webhook {id} has a new secret; the old one also signs for {overlap}")


@example("webhooks test chat --wait 10s")
@webhooks.command("test")
@_ID
@click.option("--wait", metavar="DURATION", default="30s", show_default=True, help="How long to wait for the answer.")
@client_options
def send_test(session: ClientSession, id: str, wait: str) -> int:
    """Send a test message now. Exit code 1 if it was not accepted in time. A worker must be running."""
    patience = duration("wait", wait, allow_zero=True)

    async def work(app: Mainspring) -> Execution:
        sent = await app.webhooks.test(id, by=operator())
        try:
            return await app.wait(sent, patience)
        except TimeoutError:
            return await app.get(sent.id)

    delivery = session.call(work)
    session.show(execution_json(delivery), lambda: _print_test(delivery))
    return 0 if delivery.state is State.COMPLETED else 1


@example("webhooks deliveries chat --status failed --limit 50")
@webhooks.command("deliveries")
@_ID
@click.option("--status", "states", multiple=True, type=click.Choice([state.value for state in State]))
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1_000))
@client_options
def list_deliveries(session: ClientSession, id: str, states: Sequence[Status], limit: int) -> None:
    """Deliveries to an endpoint, newest first, including those not sent yet. `executions show` lists every attempt."""
    found = session.call(lambda app: app.webhooks.deliveries(id, status=list(states) or None, limit=limit))
    session.show([execution_json(each) for each in found], lambda: _print_deliveries(found))


@example("webhooks replay chat --since 2026-03-01T00:00Z --limit 100")
@webhooks.command("replay")
@_ID
@click.option("--since", metavar="TIME", help="Only deliveries created at this time or later.")
@click.option("--until", metavar="TIME", help="Only deliveries created before this time.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=1_000, show_default=True, help="At most this many.")
@client_options
def replay(session: ClientSession, id: str, since: str | None, until: str | None, limit: int) -> int:
    """Send again the deliveries that failed for good or were cancelled and have not arrived since, except tests.
    Receivers see the same webhook-id as before."""

    async def work(app: Mainspring, on_item: Any) -> Any:
        found = await app.webhooks.undelivered(id, since=since, until=until, limit=limit)
        return await app.bulk.executions("retry", found, on_item=on_item, by=operator())

    return run_bulk(session, "replay", work, "DELIVERY")


@example("webhooks remove chat")
@webhooks.command("remove")
@_ID
@client_options
def remove_webhook(session: ClientSession, id: str) -> None:
    """Delete an endpoint, and cancel its waiting deliveries. The history of its deliveries stays."""
    session.call(lambda app: app.webhooks.remove(id, by=operator()))
    session.show({"removed": id}, lambda: echo(f"webhook {id} removed"))


# --- screens ------------------------------------------------------------------------------------------------------


def _show_new(session: ClientSession, made: NewWebhook, line: str) -> None:
    """Of a key pair the receiver needs the public half; the private one stays here."""

    def people() -> None:
        shown = made.webhook.public_key or (made.secret.reveal() if made.secret is not None else None)
        if shown is None:
            echo(line)
            return
        echo(shown)
        private = made.webhook.public_key is None
        note(f"{line}; {'the secret is not shown again' if private else 'receivers verify with this public key'}")

    session.show(new_webhook_json(made), people)


def _print_list(found: Sequence[WebhookView]) -> None:
    if not found:
        echo("There are no webhooks. Create one with: mainspring webhooks create URL --event execution.failed")
        return
    columns = [
        Column("WEBHOOK", lambda view: view.id),
        Column("SENT TO", lambda view: view.url, "cut"),
        Column("STATUS", _status),
        Column("EVENTS", lambda view: _some(view.events), "cut"),
        Column("ONLY", lambda view: "; ".join(_restrictions(view)) or "-", "drop"),
        Column("FORMAT", lambda view: view.format, "drop"),
    ]
    print_table(columns, found)


def _print_one(view: WebhookView) -> None:
    secret = "-" if view.secret_created_at is None else f"since {moment(view.secret_created_at)}"
    if view.old_secret_until is not None:
        secret += f"; the previous one signs until {moment(view.old_secret_until)}"
    fields = {
        "webhook": view.id,
        "sent to": view.url,
        "status": _status(view) + (f" ({view.disabled_reason})" if view.disabled_reason else ""),
        "failing since": None if view.failing_since is None else moment(view.failing_since),
        "description": view.description,
        "events": _some(view.events),
        "only": "\n".join(_restrictions(view)),
        "format": view.format,
        "signature": view.scheme if view.secret_created_at is not None else "none",
        "public key": view.public_key,
        "secret": secret,
        "created": f"{moment(view.created_at)} by {view.created_by}",
    }
    print_fields({name: value for name, value in fields.items() if value})


def _status(view: WebhookView) -> str:
    if not view.enabled:
        return "disabled"
    return "enabled" if view.failing_since is None else "failing"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) or "all"


def _restrictions(view: WebhookView) -> list[str]:
    named = {"jobs": view.jobs, "queues": view.queues, "tenants": view.tenants}
    return [f"{name} {', '.join(values)}" for name, values in named.items() if values]


def _print_deliveries(found: Sequence[Execution]) -> None:
    if not found:
        echo("Nothing was sent to it yet. Try: mainspring webhooks test ID")
        return
    columns = [
        Column("DELIVERY", lambda each: short_id(each.id)),
        Column("EVENT", lambda each: str(each.params.get("event", ""))),
        Column("STATUS", lambda each: status(each.state.value)),
        Column("TRIES", lambda each: str(len(each.attempts)), "drop"),
        Column("NEXT TRY", _next_try, "drop"),
        Column("ANSWER", lambda each: _answer(each).removeprefix("the receiver answered "), "cut"),
        Column("CREATED", lambda each: moment(each.created_at), "drop"),
    ]
    print_table(columns, found)


def _next_try(delivery: Execution) -> str:
    waits = delivery.attempts and not delivery.state.final
    return without_distance(moment(delivery.start_at)) if waits else ""


def _answer(delivery: Execution) -> str:
    response = delivery.metadata.get("response") or {}
    failed = next((each.error for each in reversed(delivery.attempts[-1:]) if each.error), None)
    if failed and not delivery.state.final:
        return _problem(failed)
    if delivery.state is not State.COMPLETED:
        cancelled = delivery.reason if delivery.state is State.CANCELLED else None
        return _problem(cancelled or delivery.error or delivery.reason) or "-"
    return f"{response['status']} after {took(response.get('duration_ms'))}" if response else "-"


def _problem(text: str | None) -> str:
    return first_line(text).removeprefix("NonRetryable: ")


def _print_test(delivery: Execution) -> None:
    if delivery.state is State.COMPLETED:
        echo(f"delivered: {_answer(delivery)}")
    elif delivery.state.final:
        echo(f"not delivered: {_answer(delivery)} (see: mainspring executions show {delivery.id})")
    else:
        echo(f"not sent yet: is a worker running? (mainspring executions show {delivery.id})")
